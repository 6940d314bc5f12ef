"""Addresses that fall back to a queue while nobody receives (12.1.4.3)."""

from typing import Any

from daybook.engine import commands as c
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import DistributionEntry
from daybook.engine.facts.settlements import FAILED, REJECTED, RELEASED
from daybook.engine.facts.values import Symbol
from daybook.engine.messages.annotations import unpacked
from tests.support.world import World
from tests.support.worlds.hosts import OTHER
from tests.unit.engine.direct.test_forwarding import Direct, Heard

FALLING = (DistributionEntry(prefix="safe", enable_fallback=True),)


def falling(**options: Any) -> Direct:
    direct = Direct("safe.a", table=FALLING, **options)
    assert direct.heard.is_open
    return direct


def run(direct: Direct) -> None:
    """Let what the queue delivers be sent on, and outcomes come back."""
    for _ in range(4):
        direct.hear()


def store(direct: Direct, count: int) -> None:
    for _ in range(count):
        direct.send()
    assert direct.world.queue("safe.a").ready_count == count
    direct.heard.ends.clear()


def test_messages_are_stored_while_nobody_receives() -> None:
    direct = falling()
    assert direct.send(persistent=True) > 0
    assert direct.heard.ends == {}
    assert direct.world.bodies("safe.a") == [b"1"]


def test_new_messages_pass_by_the_queue_while_somebody_receives() -> None:
    direct = falling()
    receiver = direct.attach()
    assert direct.send() == c.FORWARDED
    assert direct.taken(receiver) == [1]
    assert "safe.a" not in direct.world.state.queue_by_name


def test_what_is_stored_comes_in_its_order_and_leaves_the_queue_when_it_is_accepted() -> None:
    direct = falling()
    store(direct, 5)
    receiver = direct.attach()
    run(direct)
    assert direct.taken(receiver) == [1, 2, 3, 4, 5]
    assert direct.world.queue("safe.a").message_count == 5
    for each in direct.deliveries(receiver):
        direct.settle(receiver, each.message)
    run(direct)
    assert direct.world.queue("safe.a").message_count == 0
    assert direct.world.queue("safe.a").acknowledged == 5
    direct.world.check()


def test_the_journal_says_which_message_of_the_queue_was_forwarded() -> None:
    direct = falling()
    store(direct, 1)
    (stored,) = direct.world.queue("safe.a").entries
    direct.attach()
    run(direct)
    direct.send()
    (taken, sent) = direct.world.events_named("Forwarded")
    (emptying,) = direct.world.broker.direct.emptied.values()
    assert (taken.row[events.RELATED], taken.decoded.link) == (stored, emptying.sender)
    assert (sent.row[events.RELATED], sent.decoded.link) == (direct.sender, 0)


def test_a_message_that_is_released_stays_in_the_queue_and_comes_again() -> None:
    direct = falling()
    store(direct, 1)
    receiver = direct.attach(credit=1)
    run(direct)
    direct.settle(receiver, direct.message(receiver), RELEASED)
    run(direct)
    assert direct.world.queue("safe.a").message_count == 1
    direct.world.ok(c.Credit(receiver, in_all=2))
    assert direct.taken(receiver) == [1, 1]


def test_a_rejected_one_becomes_a_dead_letter() -> None:
    direct = falling()
    direct.world.settings(**{"#": {"dead_letter_address": "DLQ"}})
    store(direct, 1)
    receiver = direct.attach()
    run(direct)
    direct.settle(receiver, direct.message(receiver), REJECTED)
    run(direct)
    assert direct.world.bodies("DLQ") == [b"1"]


def test_a_receiver_that_is_lost_leaves_the_message_in_the_queue_with_an_attempt() -> None:
    direct = falling()
    store(direct, 2)
    peer = direct.world.connect()
    direct.attach(connection=peer, credit=1)
    run(direct)
    direct.world.close(peer, reasons.DISCONNECTED)
    run(direct)
    queue = direct.world.queue("safe.a")
    assert (queue.ready_count, len(queue.consumers)) == (2, 0)
    assert [entry.delivery_count for entry in direct.world.entries("safe.a")] == [1, 0]
    direct.send()
    assert queue.ready_count == 3
    direct.world.check()


def test_a_restart_keeps_what_is_stored() -> None:
    direct = falling()
    for _ in range(3):
        direct.send(persistent=True)
    direct.attach()
    run(direct)
    direct.world.restart()
    assert direct.world.queue("safe.a").ready_count == 3
    assert not direct.world.broker.direct.emptied


def test_an_outcome_of_failure_counts() -> None:
    direct = falling()
    store(direct, 1)
    receiver = direct.attach(credit=1)
    run(direct)
    direct.settle(receiver, direct.message(receiver), FAILED, modified=True)
    run(direct)
    direct.world.ok(c.Credit(receiver, in_all=2))
    run(direct)
    assert [each.attempt for each in direct.deliveries(receiver)] == [1, 2]
    assert [each.redelivered for each in direct.deliveries(receiver)] == [False, True]


def test_notes_of_a_receiver_come_with_the_message() -> None:
    direct = falling()
    store(direct, 1)
    receiver = direct.attach(credit=1)
    run(direct)
    noted: dict[Any, Any] = {Symbol("x-opt-note"): "seen"}
    direct.settle(receiver, direct.message(receiver), RELEASED, annotations=noted, modified=True)
    direct.world.ok(c.Credit(receiver, in_all=2))
    run(direct)
    assert unpacked(direct.deliveries(receiver)[-1].annotations) == noted


def test_two_receivers_share_what_is_stored() -> None:
    direct = falling()
    store(direct, 6)
    first, second = direct.attach(), direct.attach()
    heard = Heard()
    direct.attach_sender("safe.a", heard)
    run(direct)
    assert sorted(direct.taken(first) + direct.taken(second)) == [1, 2, 3, 4, 5, 6]


def test_it_takes_from_the_queues_of_each_virtual_host() -> None:
    """One connection of the broker serves all of them, so no state is wrong for that."""
    world = World()
    world.ok(c.ChangeDistributions(FALLING))
    peer = world.connect(host=OTHER)
    world.ok(c.Send(peer, f"{OTHER}::safe.a", b"", b"stored"))
    receiver = world.attach(peer, f"{OTHER}::safe.a")
    world.turn()
    (own,) = world.state.consumers.values()
    assert own.id != receiver
    assert own.connection.host != own.queue.address.host == OTHER
    world.check()
