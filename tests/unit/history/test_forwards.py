"""The story of a message to a direct address: who got it, by which links, and what became of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.facts import events
from daybook.engine.facts.settlements import REJECTED
from daybook.history.event_finder import EventFinder
from daybook.history.selection import Question, begun
from daybook.history.trail import NoSuchMessageError, Trail, follow
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from tests.support.forging.direct import Direct, stored
from tests.support.forging.linked import Linked
from tests.support.histories import write_history
from tests.support.world import Event


def _trail(tmp_path: Path, journal: Sequence[Event], message: int) -> Trail:
    data = write_history(tmp_path / "data", list(journal))
    return follow(EventFinder(RealDisk(data / JOURNAL)), message, data)


def test_it_says_who_got_a_message_and_how_it_ended(tmp_path: Path) -> None:
    direct = Direct("one")
    link, sender = direct.receivers[0], direct.senders["one"]
    message = direct.send("one")
    direct.send("one")
    direct.world.ok(c.Settle(link, message, outcome=REJECTED, error="bad"))
    told = _trail(tmp_path, direct.world.journal, message)
    forwarded, settled = told.steps
    assert forwarded.text.startswith(f"message {message}, to link {link}, guest from ")
    assert f"by the link of event {sender}" in forwarded.text
    assert [each.text for each in forwarded.consequences] == [
        f"link {sender} is a sender of address 'one', of connection {direct.sending}",
        f"link {link} is a receiver of address 'one', of connection {direct.receiving}",
    ]
    assert f"link {link} of guest" in settled.text
    assert "error 'bad'" in settled.text
    assert "not persistent" not in settled.text
    end = f"ended at link {link} with event {settled.event.lsn}: refused"
    assert told.now == ((message, end),)


def test_each_receiver_has_its_own_end(tmp_path: Path) -> None:
    direct = Direct("all")
    other = direct.receiver("all", acknowledges=False)
    message = direct.send("all")
    told = _trail(tmp_path, direct.world.journal, message)
    ((_, where),) = told.now
    first, second = where.split("; ")
    assert first == f"in flight to link {direct.receivers[0]}"
    assert second.startswith(f"ended at link {other} with event")


def test_a_restart_ends_what_was_in_flight(tmp_path: Path) -> None:
    direct = Direct("one")
    message = direct.send("one")
    direct.world.restart()
    told = _trail(tmp_path, direct.world.journal, message)
    (gone,) = told.steps[-1].consequences
    assert gone.text == (
        f"message {message}, in flight to link {direct.receivers[0]}, is gone: the restart ended"
        " both"
    )
    assert "by the restart" in told.now[0][1]


def test_nobody_got_it(tmp_path: Path) -> None:
    direct = Direct("one")
    direct.world.detach(direct.receivers[0])
    message = direct.send("one")
    assert _trail(tmp_path, direct.world.journal, message).now == (
        (message, "went to no receiver"),
    )


def _inspected(tmp_path: Path, journal: Sequence[Event], **question: Any) -> list[Event]:
    data = write_history(tmp_path / "data", list(journal))
    finder = EventFinder(RealDisk(data / JOURNAL))
    asked = Question(**question)
    found = begun(data, finder, asked, reads_names=False, note=pytest.fail)
    lsns = {event.lsn for event in found.events()}
    assert not lsns or not found.unknown
    return [event for event in journal if event.lsn in lsns]


def test_events_are_found_by_the_name_of_a_direct_address(tmp_path: Path) -> None:
    """Those that do not name it have a link of it."""
    direct = Direct("one", "all")
    for name in ("one", "all"):
        direct.send(name)
    direct.world.close(direct.receiving)
    direct.world.turn()
    found = _inspected(tmp_path, direct.world.journal, address="one")
    assert [event.name for event in found] == [
        "LinkAttached", "LinkAttached", "Forwarded", "ForwardSettled", "LinkDetached",
    ]  # fmt: skip
    links = direct.senders["one"], direct.receivers[0]
    assert all(event.row[events.CONSUMER] in links for event in found)


def test_links_from_before_the_span_are_known(tmp_path: Path) -> None:
    direct = Direct("one", "all")
    message = direct.send("one")
    direct.world.close(direct.receiving)
    direct.world.turn()
    journal, asked = direct.world.journal, {"address": "one", "from_lsn": message + 1}
    found = _inspected(tmp_path, journal, **asked)
    assert [event.name for event in found] == ["ForwardSettled", "LinkDetached"]


def test_filters_of_a_direct_address_hold_together(tmp_path: Path) -> None:
    direct = Direct("one")
    first, _ = direct.send("one"), direct.send("one")
    direct.world.close(direct.receiving)
    direct.world.turn()
    journal = direct.world.journal
    found = _inspected(tmp_path, journal, address="one", message=first)
    assert [event.name for event in found] == ["Forwarded", "ForwardSettled"]
    kinds = frozenset({events.LINK_DETACHED})
    found = _inspected(tmp_path / "2", journal, address="one", kinds=kinds)
    assert [event.name for event in found] == ["LinkDetached"]
    found = _inspected(tmp_path / "3", journal, address="one", connection=direct.sending)
    assert [event.name for event in found] == ["LinkAttached", "Forwarded", "Forwarded"]
    assert _inspected(tmp_path / "4", journal, address="two") == []


def test_the_story_of_a_message_goes_on_from_its_queue_to_receivers(tmp_path: Path) -> None:
    direct, forwarded = stored()
    link, message = direct.receivers[0], forwarded.row[events.RELATED]
    direct.world.ok(c.Settle(link, forwarded.lsn))
    journal = direct.world.journal
    # With a catalog of all but the last segment, and without.
    for number, asked in enumerate((message, forwarded.lsn)):
        told = _trail(tmp_path / str(number), journal, asked)
        assert told.messages == (message, forwarded.lsn)
        kinds = [each.told["kind"] for each in told.steps]
        assert kinds == ["Routed", "Delivered", "Forwarded", "ForwardSettled", "Acknowledged"]
        text = told.steps[2].text
        assert f"which took message {message} from the queue, 1 byte, not journaled" in text
        assert told.now[1][1].startswith(f"ended at link {link} with event")


def test_a_link_is_no_message(tmp_path: Path) -> None:
    direct = Direct("one")
    with pytest.raises(NoSuchMessageError, match="is LinkAttached"):
        _trail(tmp_path, direct.world.journal, direct.receivers[0])


def test_it_says_by_which_auto_link_a_message_left(tmp_path: Path) -> None:
    linked = Linked("groups")
    shards = linked.out(shard="a"), linked.out(shard="b")
    linked.send_of_group()
    event = linked.named("Forwarded")
    told = _trail(tmp_path, linked.world.journal, event.lsn)
    (forwarded,) = told.steps
    assert f"shard '{event.decoded.shard}'" in forwarded.text
    chosen = event.row[events.CONSUMER]
    assert chosen in shards
    name = linked.world.journal[chosen - 1].decoded.auto_link
    assert [each.text for each in forwarded.consequences][1:] == [
        f"link {chosen} is a receiver of address 'groups' by auto-link '{name}', "
        f"of connection {linked.east}"
    ]


def test_it_names_phase_and_fallback(tmp_path: Path) -> None:
    linked = Linked("safe")
    store = linked.out(is_fallback=True)
    message = linked.send("safe")
    told = _trail(tmp_path, linked.world.journal, message)
    assert (
        told.steps[0].consequences[1].text.endswith(f"with fallback, of connection {linked.east}")
    )
    assert told.now == ((message, f"in flight to link {store}"),)
    way = Linked("way")
    way.out(phase=1)
    into = way.into(phase=1)
    way.world.ok(c.Send(way.east, "way", b"", b"a", sender=into, token="t"))
    told = _trail(tmp_path / "way", way.world.journal, way.named("Forwarded").lsn)
    assert "a sender of address 'way' at phase 1" in told.steps[0].consequences[0].text
