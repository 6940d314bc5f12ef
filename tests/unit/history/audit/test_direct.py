"""The audit allows some journals with direct addresses: those that begin later, miss something,
or record less."""

from pathlib import Path
from unittest.mock import patch

import pytest

from daybook.engine import commands as c
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import DistributionEntry
from daybook.engine.facts.settlements import FAILED
from daybook.history.audit import re_execution
from tests.support.forging.direct import TABLE, Direct, Routed, settled_by_another
from tests.support.forging.faults import changed
from tests.support.histories import write_history
from tests.support.world import Event, World, fold
from tests.support.worlds import mixture
from tests.support.worlds.auditing import DoorWorld, judged
from tests.unit.history.audit.test_audit import audited


def _busy(mode: str = "decisions") -> World:
    """All that links of direct addresses can do, twice, with a restart between."""
    direct = Direct("one", "all", "near", "first", journal_direct=mode)
    world = direct.world
    direct.receiver("all", acknowledges=False)
    direct.receiver("one", credit=0)
    for name in ("one", "all", "near", "first", "one", "one"):
        direct.send(name) if mode != "off" else _sent(direct, name)
    if mode != "off":
        world.ok(c.Settle(direct.receivers[0], direct.named("Forwarded", 0).lsn, outcome=FAILED))
    world.detach(direct.receivers[0])
    world.ok(c.ChangeDistributions(TABLE[1:]))
    world.close(direct.receiving, reasons.TIMEOUT)
    world.ok(c.DetachSender(direct.senders["all"]))
    world.restart()
    world.ok(c.ChangeDistributions((DistributionEntry(prefix="all"),)))
    connection = world.connect()
    sender = world.ok(c.AttachSender(connection, "all"))
    world.ok(c.Send(connection, "all", b"", b"a", sender=sender, token="t"))
    world.attach(connection, "all")
    world.ok(c.Send(connection, "all", b"", b"a", sender=sender, token="t"))
    world.close(connection)
    world.turn()
    return world


def _sent(direct: Direct, name: str) -> None:
    direct.world.ok(c.Send(direct.sending, name, b"", b"a", sender=direct.senders[name], token="t"))


@pytest.mark.parametrize("mode", ["decisions", "content", "off"])
def test_whatever_a_broker_records_is_allowed(mode: str) -> None:
    world = _busy(mode)
    assert judged(world.journal) == []
    kinds = {event.name for event in world.journal}
    assert ({"Forwarded", "ForwardSettled"} <= kinds) == (mode != "off")


def test_a_journal_may_begin_anywhere() -> None:
    """Links and messages of before are in no rule's way."""
    journal = _busy().journal
    for after in range(len(journal)):
        state = fold(journal[:after])
        assert judged(journal[after:], state=state, after=after) == []


@pytest.mark.parametrize("is_far", [True, False])
def test_a_link_that_is_passed_on_ends_with_the_connection_of_one_end(*, is_far: bool) -> None:
    """The other connection stays, attaches more, and ends later for a reason of its own."""
    routed = Routed()
    world = routed.world
    lost, stays = routed.receiving, routed.sending
    if not is_far:
        lost, stays = stays, lost
    world.close(lost, reasons.DISCONNECTED)
    assert routed.named("LinkDetached").row[events.CONNECTION] == lost
    world.ok(c.AttachSender(stays, "one"))
    world.close(stays)
    for after in range(len(world.journal)):
        state = fold(world.journal[:after])
        assert judged(world.journal[after:], state=state, after=after) == []


def test_what_was_lost_may_have_been_anything() -> None:
    """A salvage leaves Lost events where it could read nothing."""
    journal = _busy().journal
    of_links = [each for each in journal if each.row[events.KIND] >= events.LINK_ATTACHED]
    for lost in of_links:
        told = [_lost(each) if each.lsn == lost.lsn else each for each in journal]
        assert judged(told) == [], lost


def _lost(event: Event) -> Event:
    row = events.row(events.LOST, reason=reasons.SALVAGED, time=event.row[events.TIME])
    return event._replace(row=row, detail=b"", headers=b"", body=b"")


def test_what_began_since_is_asked_even_in_the_middle() -> None:
    direct = Direct("one")
    after = len(direct.world.journal)
    state = fold(direct.world.journal)
    other = direct.receiver("one")
    direct.send("one")
    direct.world.detach(other)
    event = direct.named("Forwarded")
    wrong = event._replace(row=changed(event.row, consumer=event.lsn + 7))
    journal = [wrong if each is event else each for each in direct.world.journal]
    found = judged(journal[after:], state=state, after=after)
    assert [(each.rule, each.lsn) for each in found] == [("forwarded", event.lsn)]


def test_a_stretch_knows_of_the_links_before_it(tmp_path: Path) -> None:
    journal = _busy().journal
    cuts = range(1, len(journal))
    with patch.object(re_execution, "STRETCH_EVENTS", 1):
        assert audited(write_history(tmp_path / "right", journal, cuts=cuts)).is_clean
        planted = settled_by_another()
        wrong = write_history(
            tmp_path / "wrong", planted.history, cuts=range(1, len(planted.history))
        )
        (found,) = audited(wrong).breaches
    assert (found.rule, found.lsn) == (planted.rule, planted.lsn)


def test_a_stretch_knows_of_the_routes_before_it(tmp_path: Path) -> None:
    journal = Routed().world.journal
    with patch.object(re_execution, "STRETCH_EVENTS", 1):
        assert audited(write_history(tmp_path, journal, cuts=range(1, len(journal)))).is_clean


@pytest.mark.parametrize("seed", range(12))
def test_stories_with_everything_may_begin_anywhere(seed: int) -> None:
    world = DoorWorld(journal_direct=("decisions", "content")[seed % 2])
    kinds, story = mixture.draw(seed, 40)
    mixture.Player(world, kinds).play(story)
    assert judged(world.journal, world.ends) == []
    step = len(world.ends) // 6 + 1
    for end in world.ends[:-1:step]:
        later = [each - end for each in world.ends if each > end]
        state = fold(world.journal[:end])
        found = judged(world.journal[end:], later, state=state, after=end)
        about = [each for each in found if each.rule in ("direct", "forwarded")]
        assert about == []
