"""Each request of administrators is described once: its commands, its page and its audit follow."""

import shlex
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import pytest
from click.testing import CliRunner

from daybook.engine.facts.definitions import DivertDefinition
from daybook.history.audit.checks.requests import ASKED
from daybook.server.administration import ways
from daybook.server.administration.admin_requests import (
    REQUESTS,
    DivertCreation,
    MessagesAction,
    QueuePause,
    QueueUpdate,
    SettingsChange,
)
from daybook.server.administration.request_rows import Change, Request, Way
from daybook.tools.administration import request_commands
from daybook.tools.administration.request_commands import (
    add_commands,
    command_of,
    help_of,
)
from daybook.tools.daybook import cli
from tests.meta.drawn import requests_page

WAYS = [(row, way) for row in REQUESTS.values() for way in row.ways]


def command(way: Way) -> click.Command | None:
    """Return the command that a way names."""
    found: click.Command | None = cli
    for word in way.command.split():
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), word)
    return found


@pytest.mark.parametrize(("row", "way"), WAYS, ids=[way.command for _, way in WAYS])
def test_a_way_is_a_command(row: type[Request], way: Way) -> None:
    assert command(way) is not None


def test_every_request_has_a_command() -> None:
    assert not [name for name, row in REQUESTS.items() if not row.ways]


def test_a_command_sends_one_request() -> None:
    names = [way.command for _, way in WAYS]
    assert len(set(names)) == len(names)


def test_the_audit_knows_what_every_change_leads_to() -> None:
    assert {name for name, row in REQUESTS.items() if issubclass(row, Change)} == set(ASKED)


def test_the_page_is_drawn() -> None:
    assert requests_page.PART.is_current()
    assert requests_page.RIGHTS.is_current()


class Probe(QueuePause, frozen=True, tag="probe-queue"):
    """Say how a queue is."""

    depth: int = 3
    ways = (Way("queue probe", "probed queue '{queue}'"),)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """The requests of commands to a broker that accepts everything."""
    sent: list[dict[str, object]] = []

    def answer(_: object, request: dict[str, object]) -> dict[str, object]:
        sent.append(request)
        way = next(found.way for found in ways.every_way() if found.tag == request["do"])
        rows = {} if way.table is None else {way.table.key: []}
        return {"lsn": 7, "acted": 2, "passed_over": 0, "closed": 1} | rows

    monkeypatch.setattr(request_commands, "reach", answer)
    return sent


def test_a_row_is_all_that_a_command_needs(
    asked: list[dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for module in (request_commands, ways):
        monkeypatch.setattr(module, "REQUESTS", {"probe-queue": Probe})
    group = click.Group("queue")
    add_commands(group)
    group(["probe", "orders"], standalone_mode=False)
    assert asked == [{"do": "probe-queue", "queue": "orders"}]
    assert capsys.readouterr().out == "probed queue 'orders'\n"
    assert help_of(Probe) == "Say how a queue is."


SAMPLES: Final[dict[str, object]] = {
    "queue": "-orders eu", "address": "a b", "target": "--other", "filter": "a = 'x' AND b > 1",
    "priority": 7, "group": "g", "to": "east", "match": "orders.#", "divert": "d",
    "values": {"redelivery-delay": "5s", "no-expiry": "true"}, "keys": ["a", "b"], "force": True,
    "routing_types": ["anycast", "multicast"], "ids": [7, 8], "search": "x", "sort": "",
    "descending": True, "connection": 5, "connector": "east", "if_missing": True,
    "changes": {"max_consumers": 3, "exclusive": True},
}  # fmt: skip


@pytest.mark.parametrize("found", list(ways.every_way()), ids=lambda found: found.way.command)
def test_the_command_that_is_shown_for_a_request_sends_it(
    found: ways.Found, asked: list[dict[str, object]]
) -> None:
    if found.way.written:
        pytest.skip("its command is a function of its own")
    marks = ways.marks_of(found.row, found.way)
    request: dict[str, object] = {"do": found.tag} | found.way.fixed
    request |= {name: SAMPLES[name] for name in marks if name in SAMPLES}
    if "definition" in marks:
        request["definition"] = {"name": "new", "address": "a", "forwarding_addresses": ["x", "y"]}
        request["definition"] |= {"exclusive": True}  # type: ignore[operator]
    whole = msgspec.to_builtins(msgspec.convert(request, found.row, strict=False))
    program, *words = shlex.split(ways.command_line(found.way, whole))
    assert program == "daybook"
    group, _, name = found.way.command.partition(" ")
    made = command_of(group) if not name else _of(group, name)
    made(words[2 if name else 1 :], standalone_mode=False)
    sent = msgspec.convert(asked[0], found.row, strict=False)
    assert sent == msgspec.convert(request, found.row, strict=False)


def _of(group: str, name: str) -> click.Command:
    made = click.Group(group)
    add_commands(made)
    return made.commands[name]


def test_a_command_sends_what_it_fixes_and_what_it_was_given(
    asked: list[dict[str, object]], capsys: pytest.CaptureFixture[str]
) -> None:
    move = command(MessagesAction.ways[0])
    assert move is not None
    move(["orders", "other", "--message", "4,711"], standalone_mode=False)
    request = {"do": "act-on-messages", "queue": "orders", "action": "move", "filter": ""}
    assert asked == [request | {"message": 4711, "target": "other", "limit": 0}]
    assert capsys.readouterr().out == "moved 2 messages to queue 'other'\n"


def test_options_for_attributes_make_a_definition(asked: list[dict[str, object]]) -> None:
    create = command(DivertCreation.ways[0])
    assert create is not None
    words = ["copies", "--address", "a", "--forwarding-addresses", "b", "--exclusive", "--replace"]
    create(words, standalone_mode=False)
    [request] = asked
    assert (request["do"], request["replace"], request["if_missing"]) == (
        "create-divert", True, False,
    )  # fmt: skip
    definition = DivertDefinition("copies", "a", forwarding_addresses=("b",), exclusive=True)
    assert request["definition"] == msgspec.to_builtins(definition)


def test_only_attributes_that_are_given_are_changed(asked: list[dict[str, object]]) -> None:
    update = command(QueueUpdate.ways[0])
    assert update is not None
    update(["orders", "--max-consumers", "0", "--not-exclusive"], standalone_mode=False)
    changes = {"max_consumers": 0, "exclusive": False}
    assert asked == [{"do": "update-queue", "queue": "orders", "changes": changes}]
    with pytest.raises(click.UsageError, match="name at least one attribute"):
        update(["orders"], standalone_mode=False)


def test_pairs_make_a_dict(asked: list[dict[str, object]]) -> None:
    change = command(SettingsChange.ways[0])
    assert change is not None
    change(["orders.#", "a = 1", "b=c=d"], standalone_mode=False)
    values = {"a": "1", "b": "c=d"}
    assert asked == [{"do": "set-settings", "match": "orders.#", "values": values}]
    for words in (["orders.#"], ["orders.#", "a"]):
        with pytest.raises(click.UsageError):
            change(words, standalone_mode=False)


def test_a_whole_list_is_asked_for_by_its_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def reach(_: Path, request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        offset = request["offset"]
        page: dict[str, Any] = {"links": [], "next_offset": offset + 1 if offset < 2 else None}
        return page | ({"cursor": 7} if offset == 0 else {})

    monkeypatch.setattr(request_commands, "reach", reach)
    result = CliRunner().invoke(cli, ["link", "list", "--sort", "credit", "--descending"])
    assert result.exit_code == 0, result.output
    assert [(each["offset"], each.get("cursor")) for each in asked] == [
        (0, None),
        (1, 7),
        (2, None),
    ]
    assert all(each["sort"] == "credit" and each["descending"] for each in asked)
