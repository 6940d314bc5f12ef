"""The table of pools: one user cannot use up what others need.

Every pool of the table has a way to fill it here. Each is tried with small limits: one user takes
its share, gets an error, and another user still gets some.
"""

import importlib
from collections.abc import Callable

import msgspec
import pytest

from daybook.engine import commands as c
from daybook.engine.core import quotas
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.limits import pools
from daybook.engine.limits.pools import CONNECTION_PART, USER_PART, Pool
from daybook.engine.queues import groups
from daybook.engine.refusals import Code
from daybook.engine.settings.permissions import Denial
from daybook.server.hub.memory import PRESSED_ROOM, PRESSED_UNACKED, MemoryOptions
from daybook.server.hub.shares import INPUT, OBJECTS, OUTPUT, UNACKNOWLEDGED
from daybook.server.users import denials as denials_module
from daybook.server.users import pools as server_pools
from daybook.server.users.denials import Denials
from daybook.server.users.pools import POOLS
from tests.meta.drawn import pools_page
from tests.support.world import World
from tests.unit.engine.queues.test_groups import send
from tests.unit.server.hub.test_hub import Bench, Client
from tests.unit.server.network.test_admission import Door, Visitor
from tests.unit.server.network.test_listeners import who_makes_room

SMALL = 16
"""The size of a pool in these tests: a user has 4 of it, a connection 2."""

Filler = Callable[[pytest.MonkeyPatch], str]
"""Fills a share of a pool as one user and takes some as another; returns the error of the first."""


def small(pool: Pool) -> Pool:
    return msgspec.structs.replace(
        pool, of_all=SMALL, of_user=SMALL // USER_PART, of_connection=SMALL // CONNECTION_PART
    )


def connections(patch: pytest.MonkeyPatch) -> str:
    world = World(max_connections_per_user=4)
    for _ in range(4):
        world.connect()
    told = world.refused(c.OpenConnection("stomp", "p", "guest")).text
    world.ok(c.OpenConnection("stomp", "p", "other"))
    return told


def queues(patch: pytest.MonkeyPatch) -> str:
    world = World(max_queues_per_user=4)
    first, second = world.connect(), world.ok(c.OpenConnection("stomp", "p", "other"))
    for number in range(4):
        world.send(f"q{number}", b"x", first)
    told = world.refused(c.Send(first, "more", b"", b"")).text
    world.send("others", b"x", second)
    return told


def of_patterns(name: str, word: str, pool: Pool) -> Filler:
    def fill(patch: pytest.MonkeyPatch) -> str:
        patch.setattr(quotas, name, small(pool))
        world = World()

        def subscribe(peer: int, number: int, *, to_queues: bool) -> c.Command:
            kind = ANYCAST if to_queues else MULTICAST
            part = c.Attach(
                peer, f"a{peer}.{word % number}", routing_type=kind, subscription=str(number)
            )
            return c.AttachAll(peer, [part]) if to_queues else part

        peers = [world.connect() for _ in range(3)]
        for peer in peers[:2]:
            world.ok(subscribe(peer, 1, to_queues=False))
            bundle = world.ok(subscribe(peer, 2, to_queues=True))
            told = world.refused(subscribe(peer, 3, to_queues=False))
            assert told.code is Code.LIMIT
            assert "the connection has 2" in told.text
            assert told.text == world.refused(subscribe(peer, 3, to_queues=True)).text
        told = world.refused(subscribe(peers[2], 1, to_queues=False))
        assert "user 'guest' has 4" in told.text
        other = world.ok(c.OpenConnection("stomp", "p", "other"))
        world.ok(subscribe(other, 1, to_queues=True))
        # What ended is given back, and what stays is counted after a restart, too.
        world.ok(c.Detach(bundle))
        world.ok(subscribe(peers[2], 1, to_queues=False))
        world.close(peers[0])
        kept = c.Attach(peers[2], f"k.{word % 9}", durable_name="kept", routing_type=MULTICAST)
        world.ok(kept)
        assert world.broker.pattern_charges.parts.of("guest", peers[2]) == (2, 3)
        world.restart()
        assert world.broker.pattern_charges.parts.of_user == {"guest": 1}
        world.check()
        return told.text

    return fill


def message_groups(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(groups, "GROUPS", small(pools.GROUPS))
    world = World()
    first, other = world.connect(), world.ok(c.OpenConnection("stomp", "p", "other", room=1 << 30))
    for connection, name in ((first, "x"), (other, "y")):
        world.attach(connection, name)
        for group in "abcd":
            send(world, f"{group}1", address=name)
    bound = {name: world.queue(name).groups.bound for name in ("x", "y")}  # type: ignore[union-attr]
    own = {name: sum(key >= 0 for key in keys) for name, keys in bound.items()}
    assert own == {"x": 2, "y": 2}
    count = world.state.groups
    told = pools.GROUPS.refusal((0, int(pools.GROUPS.of_user), 0), 1, "guest") or ""
    for consumer in list(world.state.consumers):
        world.detach(consumer)
    assert (count.known, count.charges.of_user, count.charges.of_connection) == (0, {}, {})
    return told


def logins(patch: pytest.MonkeyPatch) -> str:
    door = Door()
    own = [door.enter() for _ in range(3)]
    other = door.enter("192.0.2.2")
    own.append(door.enter())
    assert [bool(each.dismissed) for each in own] == [True, False, False, False]
    assert not other.dismissed
    assert isinstance(other, Visitor)
    return str(own[0].dismissed)


def watchers(patch: pytest.MonkeyPatch) -> str:
    # The address with a quarter of them or more closes its own; another one stays.
    assert who_makes_room(["127.0.0.2", *["127.0.0.1"] * 3], "127.0.0.1") == 1
    # An address with less closes the oldest of all, which is the other's.
    assert who_makes_room(["127.0.0.1"] * 4, "127.0.0.2") == 0
    return ""


def refusals(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(denials_module, "DENIALS", small(denials_module.DENIALS))
    recorded: list[c.RecordDenial] = []
    found = Denials(recorded.append)
    for user in ("alice", "bob"):
        for number in range(9):
            found.take([Denial(7, user, "send", f"a{number}", "", "10.0.0.1:5")], 1)
    assert [each.user for each in recorded] == ["alice"] * 4 + ["bob"] * 4
    found.flush()
    assert recorded[-1] == c.RecordDenial(count=10)
    return ""


def transactions(patch: pytest.MonkeyPatch) -> str:
    world = World(max_transactions_memory=160_000)
    first = [world.connect() for _ in range(3)]
    other = world.ok(c.OpenConnection("stomp", "p", "other"))
    for peer in (*first, other):
        world.begin(peer)
    for peer in first[:2]:
        assert world.handle(c.Send(peer, "q", b"", bytes(36_000), transaction="t")) == 0
    # It holds the most itself, as soon as it holds as much.
    world.ok(c.Send(first[2], "q", b"", bytes(3_000), transaction="t"))
    told = world.refused(c.Send(first[0], "q", b"", bytes(9_000), transaction="t")).text
    assert world.handle(c.Send(other, "q", b"", bytes(36_000), transaction="t")) == 0
    return told


def memory_of(kind: str, grow: Callable[[Bench, str], list[Client]]) -> Filler:
    def fill(patch: pytest.MonkeyPatch) -> str:
        bench = Bench(memory=MemoryOptions(limit=8 << 20, of_user=3 << 20))
        greedy = grow(bench, "guest")
        other = bench.connect("other")
        bench.now += 1
        bench.hub.tick()
        bench.run()
        shares = bench.hub.memory.shares
        assert shares.is_short("guest", kind)
        assert not shares.is_short("other", kind)
        assert not bench.hub.status()["memory_short_of"]
        assert bench.hub.status()["memory_users"][0]["user"] == "guest"
        memory = bench.hub.memory
        state = bench.hub.broker.state
        assert memory.room_of(other.peer) == other.peer.room
        assert state.connections[other.peer.connection].unacked_max == memory.options.in_flight
        other.do(b"SUBSCRIBE\nid:1\ndestination:/topic/others\n\n\0")
        assert b"served" in other.do(b"SEND\ndestination:/topic/others\n\nserved\0")
        return said_to(kind, bench, greedy)

    return fill


def said_to(kind: str, bench: Bench, greedy: list[Client]) -> str:
    """The measure against a user, and the message to it."""
    memory, broker = bench.hub.memory, bench.hub.broker
    peer = greedy[0].peer
    if kind == OUTPUT:
        assert memory.room_of(peer) == PRESSED_ROOM
    elif kind == UNACKNOWLEDGED:
        assert broker.state.connections[peer.connection].unacked_max == PRESSED_UNACKED
    elif kind == INPUT:
        assert any(each.transport.closed_after_ms is not None for each in greedy)
    else:
        greedy[-1].do(b"SUBSCRIBE\nid:more\ndestination:/topic/t\n\n\0")
        return greedy[-1].transport.take().decode()
    return next(each for each in bench.notices if "max-memory-per-user" in each)


def unread(bench: Bench, user: str) -> list[Client]:
    clients = [bench.connect(user) for _ in range(3)]
    for each in clients:
        each.transport.stuck = 400_000
    return clients


def unsettled(bench: Bench, user: str) -> list[Client]:
    clients = [bench.connect(user) for _ in range(3)]
    for _ in range(24):
        clients[0].message(bytes(50_000))
        bench.run()
    for each in clients:
        each.do(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\ncredit:1000\n\n\0")
        bench.run()
    return clients


def unfinished(bench: Bench, user: str) -> list[Client]:
    clients = [bench.connect(user) for _ in range(5)]
    lines = b"".join(
        b"h%d:%b\n" % (number, bytes(9_000).replace(b"\0", b"x")) for number in range(30)
    )
    for each in clients:
        each.send(b"SEND\ndestination:/queue/half\n" + lines)
        bench.run()
    return clients


def subscribed(bench: Bench, user: str) -> list[Client]:
    clients = [bench.connect(user) for _ in range(2)]
    for number in range(100):
        for each in clients:
            each.send(b"SUBSCRIBE\nid:%d\ndestination:/topic/t\n\n\0" % number)
        bench.run()
    return clients


FILLERS: dict[str, Filler] = {
    pools.CONNECTIONS.name: connections,
    pools.QUEUES.name: queues,
    pools.REGEXES.name: of_patterns("REGEXES", "{x%d}", pools.REGEXES),
    pools.PARTS.name: of_patterns("PARTS", "x%d*", pools.PARTS),
    pools.GROUPS.name: message_groups,
    pools.TRANSACTIONS.name: transactions,
    "connections that have not logged in, and logins whose passcodes are being checked": logins,
    "connections to an acceptor for probes or for administration": watchers,
    denials_module.DENIALS.name: refusals,
    server_pools.OUTPUT.name: memory_of(OUTPUT, unread),
    server_pools.UNACKNOWLEDGED.name: memory_of(UNACKNOWLEDGED, unsettled),
    server_pools.INPUT.name: memory_of(INPUT, unfinished),
    server_pools.OBJECTS.name: memory_of(OBJECTS, subscribed),
}


def test_every_pool_has_a_way_to_fill_it() -> None:
    assert [each.name for each in POOLS] == list(FILLERS)


@pytest.mark.parametrize("pool", POOLS, ids=lambda pool: pool.name)
def test_one_user_takes_its_share_and_another_gets_some(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = FILLERS[pool.name](monkeypatch)
    if isinstance(pool.of_user, str) and pool.of_user.startswith("max-") and "ERROR" in pool.beyond:
        assert pool.of_user in told
    if isinstance(pool.of_user, int) and "ERROR" in pool.beyond:
        assert "and the limit is" in told


@pytest.mark.parametrize("pool", POOLS, ids=lambda pool: pool.name)
def test_a_share_is_a_part_of_the_whole(pool: Pool) -> None:
    assert importlib.import_module(f"daybook.{pool.charged}")
    if isinstance(pool.of_all, int):
        assert isinstance(pool.of_user, int)
        assert isinstance(pool.of_connection, int)
        assert 0 < pool.of_connection <= pool.of_user <= pool.of_all // USER_PART
    for limit in (pool.of_all, pool.of_user, pool.of_connection):
        if isinstance(limit, str) and limit.startswith("max-"):
            assert limit in pools_page.KEYS


def test_a_sentence_names_what_is_used_up() -> None:
    pool = small(pools.REGEXES)
    assert pool.refusal((1, 3, 15), 1, "ann") is None
    name = pool.name
    for used, told in (
        ((0, 0, 16), f"all clients together have 16 {name}, and the limit is 16"),
        ((0, 4, 9), f"user 'ann' has 4 {name}, and the limit is 4 of 16 in all"),
        ((2, 4, 9), f"the connection has 2 {name}, and the limit is 2 of 16 in all"),
    ):
        assert pool.refusal(used, 1, "ann") == told


def test_the_page_has_the_table() -> None:
    assert pools_page.PART.is_current()
