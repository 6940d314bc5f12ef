"""Full addresses in random scenarios: bounds hold, sums agree, and blocked senders resume."""

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine import commands as c
from daybook.engine.core import capacity
from daybook.engine.facts.definitions import ANYCAST
from daybook.engine.limits.waiting_senders import Sender
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.setting_keys import PAGE
from daybook.engine.state.sizes import Sizes, size_of
from tests.support.scenario import RESTART, Step, play, steps
from tests.support.topology import create_queue
from tests.support.world import World

MOST = {"orders": 2, "mails": 3, "plain": -1}
POLICIES = ("PAGE", "DROP", "BLOCK", "FAIL")

names = st.sampled_from(tuple(MOST))
piece = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 3), names),
    st.tuples(st.just("commit"), st.integers(0, 3), st.lists(names, max_size=4)),
    st.tuples(st.just("take"), names, st.integers(1, 3)),
    st.tuples(st.sampled_from(("close", "give up")), st.integers(0, 3), st.none()),
    st.tuples(st.just("disk"), st.booleans(), st.none()),
)
# Lists of their own accord are short, and nobody waits in them.
pieces = st.one_of(st.lists(piece, max_size=60), st.lists(piece, min_size=30, max_size=60))


@given(scenario=steps, most=st.integers(0, 6), size=st.sampled_from((0, 700)))
def test_sums_by_differences_are_the_sums(scenario: list[Step], most: int, size: int) -> None:
    world = World(global_max_messages=most, global_max_size=size)

    def agree() -> None:
        counted = Sizes()
        counted.count_all(world.state, {})
        assert (world.broker.room.sizes.bytes, world.broker.room.sizes.messages) == (
            counted.bytes, counted.messages,
        )  # fmt: skip
        settings = world.state.settings
        for address in world.state.addresses.values():
            resolved = settings.resolve(address.name)
            messages = size_of(address)[1]
            if resolved.address_full_policy == PAGE and messages and not address.paging:
                assert not 0 <= resolved.max_size_messages <= messages
        others = [a for a in world.state.addresses.values() if not a.paging]
        if most and sum(size_of(address)[1] for address in others) >= most:
            assert all(
                settings.resolve(address.name).address_full_policy != PAGE
                or not size_of(address)[1]
                for address in others
            )

    # A stopped broker decides nothing more, not even about its sizes.
    play(world, [step for step in scenario if step[0] != RESTART], agree)


class Peers:
    """Links of two connections that wait with a command, as sessions do, and a hub that has them go
    on."""

    def __init__(self, policies: tuple[str, str]) -> None:
        self.world = World()
        self.world.settings(
            orders={"max_size_messages": MOST["orders"], "address_full_policy": policies[0]},
            mails={"max_size_messages": MOST["mails"], "address_full_policy": policies[1]},
        )
        for name in MOST:
            self.world.ok(create_queue(name, name, ANYCAST))
        self.connections = [self.world.connect() for _ in range(2)]
        self.waiting: dict[Sender, c.Command] = {}
        self.policies = dict(zip(("orders", "mails"), policies, strict=True))

    def sender(self, number: int) -> Sender:
        """One of four links."""
        return self.connections[number // 2], number % 2

    def do(self, sender: Sender, command: c.Command) -> None:
        answer = self.world.handle(command)
        if isinstance(answer, Refusal) and answer.code is Code.BLOCKED:
            self.waiting[sender] = command
        else:
            self.waiting.pop(sender, None)

    def close(self, number: int) -> None:
        """End the connection of a link, with the other one, and open another."""
        connection, _ = self.sender(number)
        self.world.ok(c.CloseConnection(connection, 11))
        for link in range(2):
            self.waiting.pop((connection, link), None)
        self.connections[number // 2] = self.world.connect()

    def wake(self) -> None:
        """Do as the hub at the end of a turn."""
        broker = self.world.broker
        self.world.turn()
        for name in broker.room.waiting.addresses():
            while sender := capacity.next_in_line(broker, name):
                broker.room.waiting.serving = sender
                self.do(sender, self.waiting[sender])
                broker.room.waiting.serving = None
        self.world.turn()

    def take(self, name: str, count: int) -> None:
        self.world.handle(c.PurgeQueue(name, limit=count))

    def check(self) -> None:
        broker = self.world.broker
        line = broker.room.waiting
        assert {sender for sender, *_ in line.waiting()} == set(self.waiting)
        for name in line.addresses():
            assert not capacity.next_in_line(broker, name), f"somebody waits for {name} in vain"
            assert capacity.explain(broker, name)

    def send(self, sender: Sender, name: str) -> None:
        """Send one message, which must not enter what is full; only a commit may go beyond."""
        before = self.world.queue(name).message_count
        connection, link = sender
        self.do(sender, c.Send(connection, name, b"", b"x", link=link))
        if self.policies.get(name, PAGE) != PAGE and before >= MOST[name]:
            assert self.world.queue(name).message_count == before

    def commit(self, sender: Sender, names: list[str]) -> None:
        """Send messages in a transaction of the link."""
        connection, link = sender
        transaction = f"t{link}"
        self.world.ok(c.Begin(connection, transaction))
        for name in names:
            self.world.ok(c.Send(connection, name, b"", b"x", transaction=transaction, link=link))
        self.do(sender, c.Commit(connection, transaction, link))


@given(policies=st.tuples(st.sampled_from(POLICIES), st.just("BLOCK")), pieces=pieces)
def test_who_is_blocked_is_always_let_go_on(
    policies: tuple[str, str],
    pieces: list[tuple[str, object, object]],
) -> None:
    peers = Peers(policies)
    world = peers.world
    for kind, first, second in pieces:
        number = first if isinstance(first, int) else 0
        sender = peers.sender(number)
        if kind == "send" and sender not in peers.waiting:
            peers.send(sender, str(second))
        elif kind == "commit" and sender not in peers.waiting and isinstance(second, list):
            peers.commit(sender, second)
        elif kind == "give up" and sender in peers.waiting:
            if isinstance(peers.waiting.pop(sender), c.Send):
                world.ok(c.GiveUpSend(*sender))
            else:
                world.ok(c.Rollback(sender[0], f"t{sender[1]}"))
        elif kind == "take" and isinstance(second, int):
            peers.take(str(first), second)
        elif kind == "close":
            peers.close(number)
        elif kind == "disk":
            world.broker.report_disk("the disk is full" if first else "")
        peers.wake()
        peers.check()
    world.broker.report_disk("")
    for _ in range(len(peers.waiting) + 1):
        for name in MOST:
            peers.take(name, 1000)
        peers.wake()
    assert not peers.waiting
    assert not world.broker.room.waiting.addresses()
    world.check()
