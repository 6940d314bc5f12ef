"""Link routes of a configuration are read, and faults refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from daybook.engine.commands import ChangeDistributions
from daybook.engine.facts.definitions import LinkRoute
from daybook.server.configuration.config import Config, ConfigError, load
from daybook.server.configuration.config_changes import changes
from daybook.server.configured import commands

EAST = '[[connector]]\nname = "east"\nurl = "amqp://localhost:5673"\n'


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], Config]:
    def read_text(text: str) -> Config:
        path = tmp_path / "broker.toml"
        path.write_text(text)
        return load(path, ())

    return read_text


def route(**keys: str) -> str:
    lines = "".join(f'{key.replace("_", "-")} = "{value}"\n' for key, value in keys.items())
    return f"[[link-route]]\n{lines}"


def test_routes_are_put_in_force(read: Callable[[str], Config]) -> None:
    config = read(
        EAST
        + route(prefix="far", direction="in", connector="east")
        + route(
            pattern="*.far", direction="out", container="c", add_external_prefix="x.",
            remove_external_prefix="y.",
        )
    )  # fmt: skip
    assert config.link_routes == (
        LinkRoute(prefix="far", is_in=True, connector="east"),
        LinkRoute(pattern="*.far", is_in=False, container="c", add="x.", remove="y."),
    )
    (command,) = (each for each in commands(config) if isinstance(each, ChangeDistributions))
    assert command.link_routes == config.link_routes


def test_a_reload_says_which_routes_changed(read: Callable[[str], Config]) -> None:
    before = read(EAST + route(prefix="far", direction="in", connector="east"))
    after = read(EAST + route(prefix="far", direction="out", connector="east"))
    applied, waiting = changes(before, after)
    assert [each.split(":")[0] for each in applied]
    assert any("link-route out far to east" in each for each in applied)
    assert not waiting


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            route(prefix="far", direction="in"),
            "FILE:4: link-route: it has neither connector nor container, like connector ="
            ' "east"; give one',
        ),
        (
            route(prefix="far", direction="in", connector="east", container="c"),
            "FILE:8: link-route: it has both connector and container; remove one of them",
        ),
        (
            route(direction="in", connector="east"),
            'FILE:4: link-route: it has neither prefix nor pattern, like prefix = "orders"; give'
            " one",
        ),
        (
            route(prefix="a", pattern="a.#", direction="in", connector="east"),
            "FILE:6: link-route: it has a prefix and a pattern; remove one of them",
        ),
        (
            route(prefix="far", direction="sideways", connector="east"),
            "FILE:6: link-route.direction",
        ),
        (
            route(prefix="far", direction="in", connector="eats"),
            "FILE:7: link-route.connector: unknown connector 'eats'; did you mean 'east'?",
        ),
        (
            route(prefix="far", direction="in", connector="east") * 2,
            "FILE:8: link-route: it is the same as that at FILE:4; remove one",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    read: Callable[[str], Config], tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(EAST + text)
    found = [each.replace(str(tmp_path / "broker.toml"), "FILE") for each in caught.value.problems]
    assert any(each.startswith(problem) for each in found), found
