"""The image and the compose file call commands that there are, with flags that they take."""

import json
import re
import shlex
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped]

from daybook.tools.daybook import cli
from release import lockfile
from tests.meta import tree

DOCKERFILE = (tree.ROOT / "Dockerfile").read_text("utf-8")
COMPOSE = (tree.ROOT / "etc" / "compose.yaml").read_text("utf-8")


def parse(words: list[str]) -> None:
    """Parse a command line of `daybook` and its subcommands, without running anything."""
    group: click.Command = cli
    context: click.Context | None = None
    while isinstance(group, click.Group):
        assert words, "a group alone does nothing"
        found = group.get_command(click.Context(group), words[0])
        assert found is not None, words
        group, words = found, words[1:]
        context = None
    context = group.make_context(group.name, list(words))
    assert context.args == []


def instruction(name: str) -> Any:
    (found,) = re.findall(rf"^{name} (\[.*\])$", DOCKERFILE, re.MULTILINE)
    return json.loads(found)


def test_the_image_serves() -> None:
    assert instruction("ENTRYPOINT") == ["daybook"]
    parse(instruction("CMD"))


def test_its_health_is_asked_for() -> None:
    (found,) = re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    program, *words = json.loads(found)
    assert program == "daybook"
    parse(words)


def test_it_runs_as_nobody_special_on_a_volume() -> None:
    last = DOCKERFILE.rpartition("FROM ")[2]
    assert re.search(r"^USER daybook$", last, re.MULTILINE)
    assert re.search(r"^VOLUME /var/lib/daybook$", last, re.MULTILINE)
    assert "DAYBOOK_DATA=/var/lib/daybook/" in last


@pytest.mark.parametrize(
    "command", sorted(set(re.findall(r"daybook (?:user|send|receive) [^&|\n\"\]]*", COMPOSE)))
)
def test_commands_of_the_compose_file(command: str) -> None:
    parse(shlex.split(command)[1:])


def test_the_image_has_only_what_is_locked() -> None:
    installations = re.findall(r"\bpip install (.*?)(?: \\)?$", DOCKERFILE, re.MULTILINE)
    assert len(installations) == 3
    assert all(each.startswith(("--require-hashes ", "--no-deps ")) for each in installations)
    parts = re.findall(r"-m release\.lockfile (.*?) >", DOCKERFILE)
    assert len(parts) == 2
    assert all(re.findall(r"\w+", each)[0] in lockfile.sets(lockfile.project()) for each in parts)
    assert "--no-build-isolation" in DOCKERFILE


def seconds(text: str) -> int:
    return int(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


def test_ports_and_times_are_those_of_the_page() -> None:
    """docs/monitoring.md has the probes for Kubernetes, and the same in words for Docker."""
    page = (tree.ROOT / "docs" / "monitoring.md").read_text("utf-8")
    (block,) = re.findall(r"^```yaml\n(ports:.*?)^```", page, re.MULTILINE | re.DOTALL)
    pod = yaml.safe_load(block)
    ports = {each["containerPort"] for each in pod["ports"]}
    (exposed,) = re.findall(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE)
    listened = [int(each) for each in re.findall(r"0\.0\.0\.0:(\d+)", " ".join(instruction("CMD")))]
    assert ports == set(map(int, exposed.split())) == set(listened) == {61613, 8161}
    assert all(f"127.0.0.1:{port}:{port}" in COMPOSE for port in ports)
    (options,) = re.findall(r"^HEALTHCHECK (.*) CMD", DOCKERFILE, re.MULTILINE)
    check = dict(re.findall(r"--([a-z-]+)=(\S+)", options))
    alive, start = pod["livenessProbe"], pod["startupProbe"]
    assert seconds(check["interval"]) == alive["periodSeconds"]
    assert seconds(check["timeout"]) == alive["timeoutSeconds"]
    assert int(check["retries"]) == alive["failureThreshold"]
    assert seconds(check["start-period"]) == start["periodSeconds"] * start["failureThreshold"]
    said = page.partition("## Docker")[2].partition("\n## ")[0].replace("\n", " ")
    assert (
        f"every {alive['periodSeconds']} s, {alive['timeoutSeconds']} s for an answer, unhealthy"
        f" after {alive['failureThreshold']} failures, and half an hour for a start" in said
    )
    assert seconds(check["start-period"]) == 1800


def test_there_are_commands_in_the_compose_file() -> None:
    assert len(re.findall(r"daybook (?:user|send|receive) ", COMPOSE)) == 4
