"""Blocked peers in the hub: not read, resumed in order, reported, and removed when gone."""

from daybook.engine.commands import ChangeSettings, CreateQueue, DropUnlisted, PurgeQueue
from daybook.engine.facts.definitions import QueueDefinition
from daybook.engine.settings.setting_keys import Matches
from daybook.server.hub.blocked import WAKES_AT_A_TIME
from tests.unit.server.hub.test_hub import Bench, Client

LIMIT: Matches = {"a": {"max-size-messages": 2, "address-full-policy": "BLOCK"}}


def full() -> Bench:
    """A hub whose address `a` is full."""
    bench = Bench()
    bench.hub.request(ChangeSettings(LIMIT))
    client = bench.connect()
    for body in (b"1", b"2"):
        client.message(body)
    bench.run()
    return bench


def receipts(client: Client) -> list[str]:
    """Receipts that arrived since the last look."""
    frames = client.transport.take().decode().split("\0")
    assert all(not frame or frame.startswith("RECEIPT") for frame in frames)
    return [frame.partition("receipt-id:")[2].strip() for frame in frames if frame]


def purge(bench: Bench, limit: int = 1000) -> None:
    bench.hub.request(PurgeQueue("a", limit=limit))
    bench.run()


def test_a_blocked_peer_is_not_read_until_there_is_room() -> None:
    bench = full()
    client = bench.connect()
    client.message(b"3", receipt="3")
    bench.run()
    assert receipts(client) == []
    assert not client.transport.reading
    assert client.transport.is_watched
    purge(bench, 1)
    assert receipts(client) == ["3"]
    assert client.transport.reading
    assert not client.transport.is_watched
    assert not bench.hub.blocked.stopped
    assert not bench.hub.blocked.count


def test_they_go_on_in_the_order_in_which_they_were_blocked() -> None:
    bench = full()
    clients = [bench.connect() for _ in range(3)]
    for number, client in enumerate(clients):
        client.message(b"x", receipt=f"{number}a")
        client.message(b"x", receipt=f"{number}b")
        client.message(b"x", receipt=f"{number}c")
    bench.run()
    order = []
    for _ in range(9):
        purge(bench, 1)
        order += [receipt for client in clients for receipt in receipts(client)]
    assert order == ["0a", "1a", "2a", "0b", "1b", "2b", "0c", "1c", "2c"]
    assert all(client.transport.reading for client in clients)


def test_a_status_names_who_is_blocked() -> None:
    bench = full()
    client = bench.connect()
    client.message(b"3")
    bench.run()
    bench.now += 2_500_000
    status = bench.hub.status()
    [row] = status["blocked"]
    assert status["producers_blocked"] == 1
    assert row["connection"] == client.peer.connection
    assert (row["address"], row["seconds"]) == ("a", 2.5)
    assert "max-size-messages is 2" in row["why"]


def test_a_blocked_peer_that_is_gone_gives_back_and_lets_the_next_go_on() -> None:
    bench = full()
    dying, next_one = bench.connect(), bench.connect()
    dying.send(b"SUBSCRIBE\nid:1\nack:client\ndestination:/queue/b\n\n\0")
    dying.send(b"SEND\ndestination:/queue/b\n\nmine\0")
    bench.run()
    assert b"mine" in dying.transport.take()
    for client in (dying, next_one):
        client.message(b"x", receipt="x")
    bench.run()
    queue = bench.hub.broker.state.queue_by_name["b"]
    assert queue.ready_count == 0
    bench.hub.lost(dying.peer)
    bench.run()
    assert queue.ready_count == 1
    assert list(bench.hub.blocked.stopped) == [next_one.peer]
    purge(bench)
    assert receipts(next_one) == ["x"]


def test_new_settings_let_all_go_on_a_part_at_a_time() -> None:
    bench = full()
    clients = [bench.connect() for _ in range(WAKES_AT_A_TIME + 5)]
    for client in clients:
        client.message(b"x", receipt="x")
    bench.run()
    assert bench.hub.blocked.count == len(clients)
    bench.hub.request(ChangeSettings({}))
    bench.turns -= 1
    bench.hub.turn()
    assert bench.hub.blocked.count == 5
    bench.run()
    assert all(receipts(client) == ["x"] for client in clients)
    assert not bench.hub.blocked.stopped
    assert not bench.hub.blocked.count


def test_who_is_refused_when_its_turn_comes_is_closed() -> None:
    bench = full()
    client = bench.connect()
    client.message(b"3", receipt="3")
    bench.run()
    bench.hub.request(ChangeSettings({"a": LIMIT["a"] | {"address-full-policy": "FAIL"}}))
    bench.run()
    assert b"address 'a' is full" in client.transport.take()
    assert client.transport.closed_after_ms is not None
    assert not bench.hub.blocked.stopped
    assert not bench.hub.blocked.count


def test_nobody_goes_on_while_the_disk_is_behind() -> None:
    bench = Bench(max_pending_bytes=5_000)
    bench.hub.request(ChangeSettings(LIMIT))
    client, other = bench.connect(), bench.connect()
    for body in (b"1", b"2", b"3"):
        client.message(body)
    bench.run()
    assert not client.transport.reading
    other.send(b"SEND\ndestination:/queue/other\n\n" + b"x" * 10_000 + b"\0")
    bench.hub.request(PurgeQueue("a"))
    bench.turn()
    assert not client.transport.reading
    status = bench.hub.status()
    assert status["producers_blocked"] == 1
    bench.run()
    assert client.transport.reading


def test_a_message_that_is_dropped_is_told_of() -> None:
    bench = full()
    told: list[str] = []
    bench.hub.on_notice = told.append
    bench.hub.request(ChangeSettings({"a": LIMIT["a"] | {"address-full-policy": "DROP"}}))
    client = bench.connect()
    client.message(b"3", receipt="3")
    client.message(b"4", receipt="4")
    bench.run()
    assert receipts(client) == ["3", "4"]
    [text] = told
    assert "messages to address 'a' are dropped" in text


def test_a_slow_disk_shows() -> None:
    bench = Bench(max_pending_bytes=3_000)
    client = bench.connect()
    client.message(bytes(1000))
    bench.turn()
    bench.now += 7_000
    assert bench.hub.status()["sync_ms_running"] == 7.0
    client.message(bytes(3000))
    assert not client.transport.reading
    bench.now += 1_000_000
    status = bench.hub.status()
    assert (status["producers_slowed_ms"], status["peers_paused"]) == (1000.0, 1)
    bench.run()
    status = bench.hub.status()
    assert (status["sync_ms_running"], status["producers_slowed_ms"]) == (0.0, 0.0)


def test_a_blocked_peer_whose_queue_goes_hears_why_and_waits_no_more() -> None:
    bench = full()
    settings: Matches = {**LIMIT, "#": {"config-delete-queues": "FORCE"}}
    bench.hub.request(ChangeSettings(settings))
    bench.hub.request(CreateQueue("b", QueueDefinition(name="b"), configured=True))
    client = bench.connect()
    client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/b\n\n\0")
    client.message(b"x", receipt="x")
    bench.run()
    assert bench.hub.blocked.count == 1
    nothing: frozenset[str] = frozenset()
    bench.hub.request(DropUnlisted(nothing, nothing, nothing))
    bench.run()
    assert client.transport.take().startswith(b"ERROR\nmessage:queue 'b' was deleted")
    assert bench.hub.blocked.count == 0
    assert client.transport.closed_after_ms is not None
    assert bench.hub.broker.state.consumers == {}
    purge(bench)
    assert bench.hub.broker.state.queue_by_name["a"].message_count == 0
