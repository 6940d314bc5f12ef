"""Turns of the hub: nobody waits long for others, and nothing is forgotten."""

import gc
from itertools import pairwise

from daybook.engine.state.timers import DELIVERY, EXPIRY
from daybook.server.hub.turn_lengths import SLICE_LEAST, SLICE_UNITS, TURN_UNITS
from daybook.server.hub.turns import (
    COLLECT_UNITS,
    MINUTE_US,
    NAME_SLICES_A_TICK,
    NAMES,
    SCANS_A_TICK,
)
from tests.unit.server.hub.test_hub import Bench, Client

SEND = b"SEND\ndestination:/queue/%b\n\n\0"
MANY = 2000


def flooded(bench: Bench) -> Client:
    """A client that sent much more than a slice."""
    client = bench.connect()
    client.send(SEND % b"flood" * MANY)
    return client


def count(bench: Bench, queue: str) -> int:
    """How many messages a queue has."""
    found = bench.hub.broker.state.queue_by_name.get(queue)
    return found.message_count if found is not None else 0


def test_who_sends_much_gets_a_slice_and_is_not_read_until_it_is_used_up() -> None:
    bench = Bench()
    client = flooded(bench)
    assert 0 < count(bench, "flood") <= SLICE_UNITS
    assert not client.transport.reading
    assert bench.hub.status()["peers_waiting_for_turn"] == 1
    bench.run()
    assert count(bench, "flood") == MANY
    assert client.transport.reading
    assert bench.hub.status()["peers_waiting_for_turn"] == 0


def test_who_sends_nothing_but_line_ends_is_not_read_all_the_time() -> None:
    bench = Bench()
    client = bench.connect()
    client.send(b"\n" * 65_536)
    assert not client.transport.reading
    bench.run()
    assert client.transport.reading
    client.send(b"\n\r\n" * 9 + SEND % b"after" + b"\n" * 99 + SEND % b"after")
    bench.run()
    assert count(bench, "after") == 2


def test_fresh_input_is_looked_at_although_others_wait() -> None:
    bench = Bench()
    for _ in range(20):
        flooded(bench)
    honest = bench.connect()
    before = count(bench, "flood")
    honest.send(SEND % b"honest")
    assert count(bench, "honest") == 1
    assert count(bench, "flood") == before


def test_fresh_input_of_many_is_bounded_as_well() -> None:
    bench = Bench()
    clients = [bench.connect() for _ in range(30)]
    bench.hub.turn()
    spent = bench.hub.broker.budget.spent
    for client in clients:
        client.send(SEND % b"flood" * MANY)
    assert bench.hub.broker.budget.spent - spent <= 2 * TURN_UNITS + 31 * SLICE_LEAST
    bench.run()
    assert count(bench, "flood") == 30 * MANY


def test_those_that_wait_take_turns() -> None:
    bench = Bench()
    clients = [flooded(bench) for _ in range(4)]
    while any(not client.transport.reading for client in clients):
        spent = bench.hub.broker.budget.spent
        bench.turns = 0
        bench.hub.turn()
        bench.writer.write()
        assert bench.hub.broker.budget.spent - spent < 3 * TURN_UNITS
    assert count(bench, "flood") == 4 * MANY


def test_a_peer_that_waits_and_vanishes_is_forgotten() -> None:
    bench = Bench()
    client = flooded(bench)
    done = count(bench, "flood")
    bench.hub.lost(client.peer)
    bench.run()
    assert count(bench, "flood") == done
    assert not bench.hub.turns.waiting
    assert bench.hub.broker.state.connections == {}


def test_a_slow_disk_holds_what_waits() -> None:
    bench = Bench(max_pending_bytes=10_000)
    client = flooded(bench)
    bench.turn()
    assert count(bench, "flood") < MANY
    bench.run()
    assert count(bench, "flood") == MANY
    assert client.transport.reading


def test_a_stop_leaves_what_waits() -> None:
    bench = Bench()
    flooded(bench)
    stopped: list[object] = []
    bench.hub.stop(stopped.append)
    done = count(bench, "flood")
    bench.run()
    assert stopped
    assert count(bench, "flood") == done < MANY


def test_the_longest_turn_is_told_and_forgotten_lately() -> None:
    bench = Bench()
    nanoseconds = iter(range(0, 10**12, 5_000_000))
    bench.hub.turns.meter = lambda: next(nanoseconds)
    bench.connect()
    status = bench.hub.status()
    assert status["turn_ms_longest"] == status["turn_ms_longest_lately"] == 5.0
    bench.hub.turns.meter = lambda: 0
    bench.now += 3 * MINUTE_US
    bench.hub.turn()
    status = bench.hub.status()
    assert (status["turn_ms_longest"], status["turn_ms_longest_lately"]) == (5.0, 0.0)


def test_while_the_index_is_far_behind_a_connection_leaves_slowly() -> None:
    bench = Bench()
    client = bench.connect()
    for number in range(300):
        client.send(b"SUBSCRIBE\nid:%d\ndestination:/topic/t\n\n\0" % number)
    bench.run()
    journaled = bench.hub.unindexed.journaled
    bench.hub.unindexed.journaled += bench.hub.options.max_unindexed_bytes * 3 // 4
    bench.hub.lost(client.peer)
    bench.run()
    left = len(bench.hub.broker.state.consumers)
    assert left
    bench.run()
    assert len(bench.hub.broker.state.consumers) == left
    bench.hub.tick()
    bench.run()
    # A slice for each tick, so that it is never stuck.
    assert left - TURN_UNITS < len(bench.hub.broker.state.consumers) < left
    bench.hub.unindexed.journaled = journaled
    bench.hub.tick()
    bench.run()
    assert not bench.hub.broker.state.consumers


def test_scans_go_on_while_messages_are_on_their_way() -> None:
    """Only what a scan looks at has to arrive before it, and others send again and again."""
    bench = Bench()
    client = bench.connect()
    client.send(
        b"".join(
            b"SUBSCRIBE\nid:%d\ndestination:/topic/t\n\n\0" % n for n in range(SLICE_UNITS * 4)
        )
    )
    bench.run()
    hub = bench.hub
    sender = bench.connect()
    arrivals = hub.broker.state.arrivals

    def left() -> int:
        return sum(len(each.left) for way in arrivals.values() for each in way)

    sender.send(b"SEND\ndestination:/topic/t\n\n\0")
    before = left()
    for scan in (EXPIRY, DELIVERY):
        hub.turns.scans.add(scan)
    hub.turns.is_pressed = True
    hub.turns._may_go_on = False
    hub.turns.allow(1)
    while hub.turns.scans:
        hub.turns._scan(bench.now)
    assert left() == before
    hub.turns.go_on(bench.now, lambda peer: None, lambda command, answer: None)
    assert 0 < left() < before
    bench.run()
    assert not arrivals


def test_scans_do_a_few_slices_a_tick_while_the_index_is_far_behind() -> None:
    """Each makes as many events as are due, and senders would wait for the index for them."""
    bench = Bench()
    client = bench.connect()
    count = SLICE_UNITS * 8
    client.send(b"SEND\ndestination:/queue/q\nAMQ_SCHEDULED_DELAY:1000\n\n\0" * count)
    bench.run()
    hub = bench.hub
    queue = hub.broker.state.queue_by_name["q"]
    assert queue.scheduled_count == count
    bench.now += 2_000_000
    left = [count]
    for _ in range(3):
        hub.turns.tick(bench.now, hub.options)
        for number in range(SCANS_A_TICK + 2):
            hub.turns.is_pressed = True
            assert hub.turns.has_work == (number < SCANS_A_TICK)
            hub.turns.go_on(bench.now, lambda peer: None, lambda command, answer: None)
        left.append(queue.scheduled_count)
    assert all(before > after > 0 for before, after in pairwise(left))
    hub.turns.is_pressed = False
    hub.tick()
    bench.run()
    assert not queue.scheduled_count


def test_new_objects_are_looked_at_by_the_work_done_and_not_by_how_many_there_are() -> None:
    """The collector counts what came less what went, so beside a long backlog it would look at a
    hundred thousand at once."""
    bench = Bench()
    client = bench.connect()
    collected: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 0:
            collected.append(bench.hub.broker.budget.spent)

    gc.callbacks.append(note)
    gc.disable()
    try:
        for _ in range(6):
            client.send(SEND % b"q" * (COLLECT_UNITS // 2))
            bench.run()
    finally:
        gc.enable()
        gc.callbacks.remove(note)
    turn = 2 * TURN_UNITS
    assert all(later - earlier <= COLLECT_UNITS + turn for earlier, later in pairwise(collected))
    assert len(collected) >= 2


def test_a_scan_for_unused_names_does_few_slices_a_tick() -> None:
    """A list that somebody waits for does a slice in each turn, and would wait for all of them."""
    bench = Bench(name_scan_us=1_000_000)
    client = bench.connect()
    client.send(b"".join(SEND % b"q%d" % number for number in range(64)))
    bench.run()
    turns, names = bench.hub.turns, bench.hub.broker.work
    bench.hub.tick()
    bench.now += 1_000_000
    # A unit for the command, and one for sixteen names.
    turns.lengths.slice = 2
    left = []
    while not left or left[-1]:
        bench.hub.tick()
        # It rests until the next tick.
        bench.run()
        left.append(len(names.names_to_scan))
    looked = [before - after for before, after in pairwise(left)]
    assert len(left) == 128 // 16 // NAME_SLICES_A_TICK
    assert set(looked) == {16 * NAME_SLICES_A_TICK}
    assert NAMES not in turns.scans
