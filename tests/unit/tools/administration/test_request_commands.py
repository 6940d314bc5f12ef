"""Each request of administrators is described once: its commands, its page and its audit follow."""

import click
import msgspec
import pytest

from daybook.engine.facts.definitions import DivertDefinition
from daybook.history.audit.checks.requests import ASKED
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
from daybook.tools.administration.request_commands import add_commands, help_of
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
        return {"lsn": 7, "acted": 2, "passed_over": 0}

    monkeypatch.setattr(request_commands, "reach", answer)
    return sent


def test_a_row_is_all_that_a_command_needs(
    asked: list[dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(request_commands, "REQUESTS", {"probe-queue": Probe})
    group = click.Group("queue")
    add_commands(group)
    group(["probe", "orders"], standalone_mode=False)
    assert asked == [{"do": "probe-queue", "queue": "orders"}]
    assert capsys.readouterr().out == "probed queue 'orders'\n"
    assert help_of(Probe) == "Say how a queue is."


def test_a_command_sends_what_it_fixes_and_what_it_was_given(
    asked: list[dict[str, object]], capsys: pytest.CaptureFixture[str]
) -> None:
    move = command(MessagesAction.ways[0])
    assert move is not None
    move(["orders", "other", "--message", "4,711"], standalone_mode=False)
    request = {"do": "act-on-messages", "queue": "orders", "action": "move", "filter": ""}
    assert asked == [request | {"message": 4711, "target": "other"}]
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
