"""Links of a configuration that contradict something else are refused, or warned of."""

from collections.abc import Callable
from pathlib import Path

import pytest

from daybook.server.configuration.config import Config, ConfigError, load

EAST = '[[connector]]\nname = "east"\nurl = "amqp://localhost:5673"\n'
WAYPOINT = '[[address]]\nprefix = "orders"\nwaypoint = true\n'


@pytest.fixture
def said(tmp_path: Path) -> Callable[[str], list[str]]:
    """Return the warnings about a text, or else what is refused."""
    path = tmp_path / "broker.toml"

    def read(text: str) -> list[str]:
        path.write_text(text)
        try:
            found: Config = load(path)
        except ConfigError as error:
            return [f"refused {each}".replace(str(path), "FILE") for each in error.problems]
        return [each.replace(str(path), "FILE") for each in found.warnings]

    return read


def block(kind: str, **keys: object) -> str:
    lines = "".join(
        f"{key.replace('_', '-')} = {value}\n"
        if isinstance(value, list)
        else f'{key.replace("_", "-")} = "{value}"\n'
        for key, value in keys.items()
    )
    return f"[[{kind}]]\n{lines}"


def route(direction: str, prefix: str = "far", **keys: object) -> str:
    keys = {"connector": "east"} | keys if "container" not in keys else keys
    return block("link-route", prefix=prefix, direction=direction, **keys)


def link(direction: str, address: str = "orders", **keys: object) -> str:
    keys = {"connector": "east"} | keys if "container" not in keys else keys
    return block("auto-link", address=address, direction=direction, **keys)


BOTH = EAST + route("in") + route("out")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOTH + block("queue", name="far.q"),
         "refused FILE:13: queue 'far.q' can have neither senders nor consumers"),
        (BOTH + block("queue", name="q", address="far"), "refused FILE:13: queue 'q' can have"),
        (EAST + route("in") + block("queue", name="far.q"),
         "FILE:9: queue 'far.q': nobody can send to it: links to 'far.q' are passed on"),
        (EAST + route("out") + block("queue", name="far.q"),
         "FILE:9: queue 'far.q': nobody can receive from it: links to 'far.q'"),
        (BOTH + block("sharded-queue", name="far", connectors=["east"]),
         "refused FILE:12: sharded-queue: it is refused at 'far'"),
        (EAST + route("out") + link("out", "far"),
         "refused FILE:8: auto-link: it is refused at 'far', for links to it are passed on"),
        (EAST + route("in") + link("in", "far"), "refused FILE:8: auto-link: it is refused"),
        (EAST + route("out") + block("address-setting", match="a", dead_letter_address="far.dead"),
         "FILE:10: address-setting.dead-letter-address is 'far.dead', and nobody can receive"),
        (EAST + route("out") + block("address-setting", match="a", expiry_address="far.old"),
         "FILE:10: address-setting.expiry-address is 'far.old', and nobody can receive"),
        (link("out", container="r"), "FILE:1: auto-link: it is for the container 'r', and no"),
        (route("in", container="r"), "FILE:1: link-route: it is for the container 'r', and no"),
        (EAST + WAYPOINT + link("out"),
         "FILE:7: auto-link: the waypoint 'orders' has auto-links with direction = 'out' alone"),
        (EAST + WAYPOINT + link("in"), "direction = 'in' alone: nobody may send"),
        (EAST + route("in", "#"), "FILE:4: link-route: '#' matches every address, so nobody sends"),
        (EAST + block("link-route", pattern="#.#", direction="out", connector="east"),
         "FILE:4: link-route: '#.#' matches every address, so nobody receives from"),
    ],
)  # fmt: skip
def test_a_contradiction_is_said_with_its_line(
    said: Callable[[str], list[str]], text: str, words: str
) -> None:
    (found,) = said(text)
    assert words in found


@pytest.mark.parametrize(
    "text",
    [
        BOTH + block("queue", name="fa") + block("queue", name="far.q", address="near"),
        EAST + route("in") + link("out", "far"),
        EAST + route("in") + block("address-setting", match="a", dead_letter_address="far.dead"),
        '[[acceptor]]\nprotocol = "amqp"\nrole = "container"\n'
        + link("out", container="r") + route("in", container="r"),
        EAST + WAYPOINT + link("out") + link("in"),
        EAST + link("out"),
        EAST + route("in", "#.a") + route("in", "*"),
    ],
)  # fmt: skip
def test_what_can_work_is_not_said(said: Callable[[str], list[str]], text: str) -> None:
    assert said(text) == []
