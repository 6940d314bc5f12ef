"""The engine against a model of lists: what is in each queue, in which order, how often delivered.

The model does not say who is to get a message; it says who may: a delivery must be of the first
ready message, to a consumer with credit, with the next count, and afterwards nobody who could take
something may be left waiting. At every step what was journaled is folded and compared.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from daybook.engine.commands import (
    Attach,
    Begin,
    ChangeSettings,
    CloseConnection,
    Command,
    Commit,
    Credit,
    DeliverDue,
    Detach,
    ExpireDue,
    PauseQueue,
    PurgeQueue,
    ReleaseHeld,
    ResumeQueue,
    RetryHeld,
    Rollback,
    Send,
    Settle,
    Stop,
)
from daybook.engine.effects import Drained
from daybook.engine.facts import reasons
from daybook.engine.facts.settlements import ACCEPTED, BY_GRANT, BY_SETTLEMENT, FAILED
from daybook.engine.queues.entry import READY
from daybook.engine.refusals import Refusal
from tests.support.paged_world import PagedWorld
from tests.support.world import SECOND, World

QUEUES = ("orders", "mails")
LIMIT = {"orders": 3, "mails": 2}
DEAD = {"orders": "dead"}
LATE = {"mails": "late"}
DELAY = {"orders": 20}
"""Milliseconds."""


class Item:
    def __init__(self, body: bytes, priority: int, persistent: bool, expires: int) -> None:
        self.body = body
        self.priority = priority
        self.persistent = persistent
        self.expires = expires
        self.count = 0
        self.holder = 0
        self.redelivered = False
        self.held = False
        self.due = 0


class Model:
    """Queues as lists in the order of arrival, consumers with credit, transactions as lists."""

    def __init__(self) -> None:
        self.queues: dict[str, list[Item]] = {name: [] for name in (*QUEUES, "dead", "late")}
        self.paused: set[str] = set()
        self.consumers: dict[int, dict[str, Any]] = {}
        self.transactions: dict[int, list[Callable[[], None]]] = {}
        self.doomed: set[int] = set()
        self.has_way = False
        self.now_ms = 0

    def ready(self, name: str) -> list[Item]:
        here = self.queues[name]
        waiting = [item for item in here if not (item.holder or item.held or item.due)]
        return sorted(waiting, key=lambda item: -item.priority)

    def takeable(self, consumer: int) -> list[Item]:
        """The ready messages that a consumer has not refused."""
        peer = self.consumers[consumer]
        return [item for item in self.ready(peer["queue"]) if item not in peer["refused"]]

    def put(self, name: str, item: Item) -> None:
        self.queues[name].append(item)

    def move(self, name: str, item: Item, target: str | None) -> None:
        self.queues[name].remove(item)
        if target:
            self.put(target, Item(item.body, item.priority, item.persistent, 0))

    def deliver(self, consumer: int, body: bytes, count: int, redelivered: bool) -> None:
        peer = self.consumers[consumer]
        assert peer["queue"] not in self.paused
        item = self.takeable(consumer)[0]
        assert (item.body, item.count + 1, item.redelivered) == (body, count, redelivered)
        assert peer["credit"] > 0
        peer["credit"] -= 1
        peer["had"] += 1
        item.count = count
        item.holder = consumer
        peer["unacked"].append(item)

    def settled(self, consumer: int, item: Item) -> None:
        peer = self.consumers[consumer]
        peer["unacked"].remove(item)
        peer["enlisted"].pop(item, None)
        peer["credit"] += not peer["grants"] and item not in peer["credited"]
        peer["credited"].discard(item)
        item.holder = 0
        item.redelivered = True

    def ack(self, consumer: int, items: list[Item]) -> None:
        for item in items:
            self.settled(consumer, item)
            self.queues[self.consumers[consumer]["queue"]].remove(item)

    def give_back(
        self,
        consumer: int,
        items: list[Item],
        penalty: int,
        limited: bool,
        not_here: bool = False,
    ) -> None:
        name = self.consumers[consumer]["queue"]
        for item in list(items):
            self.settled(consumer, item)
            if not_here:
                self.consumers[consumer]["refused"].add(item)
            # What was part of a transaction is no longer only prefetched: it counts.
            attempted = self.consumers[consumer]["attempted"]
            taken_back = 0 if item in attempted else 1 - penalty
            attempted.discard(item)
            if limited and item.count - taken_back >= LIMIT.get(name, 99):
                self.die(name, item, item.count - taken_back)
            else:
                item.count -= taken_back
                if not taken_back and name in DELAY:
                    item.due = self.now_ms + DELAY[name]

    def die(self, name: str, item: Item, count: int) -> None:
        """Go to the dead letter address, or be held where there is none."""
        if name in DEAD or self.has_way:
            self.move(name, item, "dead")
        else:
            item.count = count
            item.held = True

    def retry(self, has_way: bool) -> None:
        """There is a dead letter address for all, or no more."""
        self.has_way = has_way
        for name in QUEUES if has_way else ():
            for item in [each for each in self.queues[name] if each.held]:
                self.move(name, item, "dead")

    def gone(self, consumer: int, penalty: int, limited: bool) -> None:
        peer = self.consumers[consumer]
        if peer["enlisted"]:
            self.doomed.add(peer["connection"])
        self.give_back(consumer, peer["unacked"], penalty, limited)
        del self.consumers[consumer]

    def release(self, connection: int) -> None:
        self.transactions.pop(connection)
        self.doomed.discard(connection)
        for peer in self.consumers.values():
            if peer["connection"] == connection:
                peer["enlisted"].clear()

    def expire(self, now: int) -> None:
        for name in QUEUES:
            # By time and age, as the scan does.
            here = [i for i in self.queues[name] if not i.holder and not i.held]
            due = [i for i in here if 0 < i.expires * 1000 <= now]
            for item in sorted(due, key=lambda item: item.expires):
                self.move(name, item, LATE.get(name))

    def deliver_due(self) -> None:
        for items in self.queues.values():
            for item in items:
                if item.due <= self.now_ms:
                    item.due = 0

    def restart(self) -> None:
        for items in self.queues.values():
            items[:] = [item for item in items if item.persistent]
            for item in items:
                item.redelivered = item.redelivered or item.holder != 0
                item.holder = 0
        self.consumers.clear()
        self.transactions.clear()
        self.doomed.clear()


class DeliveryMachine(RuleBasedStateMachine):
    def make_world(self, **options: Any) -> World:
        return World(**options)

    @initialize(mode=st.sampled_from(("decisions", "full")), before=st.booleans())
    def begin_world(self, mode: str, before: bool) -> None:
        self.world = self.make_world(persist_delivery_count_before_delivery=before)
        self.model = Model()
        self.connections: list[int] = []
        self.bodies = 0
        self.expiries: set[int] = set()
        self.mode = mode
        self.step(self.settings(""))
        for name in self.model.queues:
            first = b"first of " + name.encode()
            self.step(Send(0, name, b"", first, persistent=False))
            self.model.put(name, Item(first, 4, False, 0))
        self.connect()

    def settings(self, way: str) -> Command:
        """Mails have a dead letter address, or none."""
        return ChangeSettings(
            {
                "orders": {
                    "max-delivery-attempts": 3, "dead-letter-address": "dead",
                    "redelivery-delay": DELAY["orders"],
                },
                "mails": {
                    "max-delivery-attempts": 2, "expiry-address": "late",
                    "dead-letter-address": way,
                },
                "dead": {"max-delivery-attempts": -1},
                "late": {"max-delivery-attempts": -1},
            },
            self.mode,
        )  # fmt: skip

    def step(self, command: Command, then: Callable[[], None] | None = None) -> int:
        """Carry out a command, then let the model do the same and follow what was delivered."""
        answer = self.world.handle(command)
        assert not isinstance(answer, Refusal), answer.text
        self.world.handle(ExpireDue())
        self.world.handle(DeliverDue())
        self.world.turn()
        if hasattr(self, "model"):
            self.model.now_ms = self.world.now // 1000
        if then is not None:
            then()
        if hasattr(self, "model"):
            self.catch_up()
        return answer

    def catch_up(self) -> None:
        self.model.expire(self.world.now)
        self.model.deliver_due()
        for each in self.world.taken():
            self.model.deliver(each.consumer, each.body, each.attempt, each.redelivered)

    def new_body(self) -> bytes:
        self.bodies += 1
        return b"%d" % self.bodies

    def consumers_of(self, connection: int) -> list[int]:
        peers = self.model.consumers.items()
        return [number for number, peer in peers if peer["connection"] == connection]

    @precondition(lambda self: len(self.connections) < 3)
    @rule()
    def connect(self) -> None:
        self.connections.append(self.world.connect())

    @rule(
        name=st.sampled_from(QUEUES),
        priority=st.sampled_from((4, 4, 4, 0, 9)),
        persistent=st.booleans(),
        lives=st.sampled_from((0, 0, 5, 50)),
        count=st.integers(1, 4),
        data=st.data(),
    )
    def send(
        self, name: str, priority: int, persistent: bool, lives: int, count: int, data: Any
    ) -> None:
        connection = data.draw(st.sampled_from(self.connections))
        transaction = self.draw_transaction(data, connection)
        for _ in range(count):
            # No two messages expire at one time, so that their order then is plain.
            self.world.now += SECOND // 1000
            expires = self.world.now // 1000 + lives if lives else 0
            while expires in self.expiries:
                expires += 1
            self.expiries.add(expires or -1)
            item = Item(self.new_body(), priority, persistent, expires)
            command = Send(
                connection, name, b"", item.body, priority=priority, persistent=persistent,
                expires=expires, transaction=transaction,
            )  # fmt: skip
            self.later_or_now(
                command, connection, transaction, lambda item=item: self.model.put(name, item)
            )

    def draw_transaction(self, data: Any, connection: int) -> str | None:
        is_open = connection in self.model.transactions
        return "t" if is_open and data.draw(st.booleans()) else None

    def later_or_now(
        self,
        command: Command,
        connection: int,
        transaction: str | None,
        work: Callable[[], None],
        now: Callable[[], None] | None = None,
    ) -> None:
        if transaction is None:
            self.step(command, work)
            return

        def note() -> None:
            self.model.transactions[connection].append(work)
            if now is not None:
                now()

        self.step(command, note)

    @rule(
        name=st.sampled_from((*QUEUES, "dead")),
        credit=st.integers(0, 4),
        grants=st.booleans(),
        early=st.booleans(),
        data=st.data(),
    )
    def attach(self, name: str, credit: int, grants: bool, early: bool, data: Any) -> None:
        if len(self.model.consumers) == 4:
            return
        connection = data.draw(st.sampled_from(self.connections))
        number = self.world.broker.next_lsn
        peer = {"queue": name, "connection": connection, "credit": credit, "unacked": []}
        peer.update(
            enlisted={},
            credited=set(),
            attempted=set(),
            grants=grants,
            early=early,
            had=0,
            refused=set(),
        )
        self.model.consumers[number] = peer
        policy = BY_GRANT if grants else BY_SETTLEMENT
        command = Attach(
            connection, name, credit_policy=policy, credit_messages=credit, credit_bytes=0,
            credits_early=early,
        )  # fmt: skip
        assert self.step(command) == number

    @precondition(lambda self: self.model.consumers)
    @rule(credit=st.integers(1, 3), data=st.data())
    def give_credit(self, credit: int, data: Any) -> None:
        consumer = data.draw(st.sampled_from(sorted(self.model.consumers)))
        self.model.consumers[consumer]["credit"] += credit
        self.step(Credit(consumer, credit))

    def granted(self) -> list[int]:
        return [number for number, peer in self.model.consumers.items() if peer["grants"]]

    @precondition(lambda self: self.granted())
    @rule(more=st.integers(-1, 3), drains=st.booleans(), data=st.data())
    def set_credit(self, more: int, drains: bool, data: Any) -> None:
        """Say how many it may get in all, and perhaps take back what it cannot use now."""
        consumer = data.draw(st.sampled_from(self.granted()))
        peer = self.model.consumers[consumer]
        peer["credit"] = max(more, -peer["had"])
        self.step(Credit(consumer, in_all=peer["had"] + peer["credit"], drains=drains))
        answers, self.world.effects[:] = list(self.world.effects), []
        found = [
            (each.consumer.id, each.unused, each.total)
            for each in answers
            if isinstance(each, Drained)
        ]
        left = max(peer["credit"], 0) if drains else 0
        peer["had"] += left
        peer["credit"] -= left
        assert found == ([(consumer, left, peer["had"])] if drains else [])

    @precondition(lambda self: any(peer["unacked"] for peer in self.model.consumers.values()))
    @rule(ok=st.booleans(), cumulative=st.booleans(), not_here=st.booleans(), data=st.data())
    def settle(self, ok: bool, cumulative: bool, not_here: bool, data: Any) -> None:
        busy = [number for number, peer in self.model.consumers.items() if peer["unacked"]]
        consumer = data.draw(st.sampled_from(sorted(busy)))
        peer = self.model.consumers[consumer]
        item = data.draw(st.sampled_from(peer["unacked"]))
        unacked = self.world.state.consumers[consumer].unacked.items()
        message = next(number for number, entry in unacked if entry.message.body == item.body)
        transaction = self.draw_transaction(data, peer["connection"])
        outcome = ACCEPTED if ok else FAILED
        command = Settle(consumer, message, cumulative, transaction, outcome, not_here=not_here)
        if item in peer["enlisted"]:
            self.world.refused(command)
            return
        before = peer["unacked"][: peer["unacked"].index(item) + 1] if cumulative else [item]
        chosen = [each for each in before if each not in peer["enlisted"]]

        def hold() -> None:
            peer["enlisted"].update(dict.fromkeys(chosen, True))
            peer["attempted"].update(chosen)
            if ok and peer["early"]:
                new = [each for each in chosen if each not in peer["credited"]]
                peer["credit"] += 0 if peer["grants"] else len(new)
                peer["credited"].update(chosen)

        def work() -> None:
            if ok:
                self.model.ack(consumer, chosen)
            else:
                self.model.give_back(consumer, chosen, 1, True, not_here)

        self.later_or_now(command, peer["connection"], transaction, work, hold)

    @rule(data=st.data())
    def begin(self, data: Any) -> None:
        connection = data.draw(st.sampled_from(self.connections))
        if connection in self.model.transactions:
            self.world.refused(Begin(connection, "t"))
            return
        self.model.transactions[connection] = []
        self.step(Begin(connection, "t"))

    @precondition(lambda self: self.model.transactions)
    @rule(commit=st.booleans(), data=st.data())
    def end(self, commit: bool, data: Any) -> None:
        connection = data.draw(st.sampled_from(sorted(self.model.transactions)))
        operations = self.model.transactions[connection]
        if not commit:
            self.step(Rollback(connection, "t"), lambda: self.model.release(connection))
        elif connection in self.model.doomed:
            assert isinstance(self.world.handle(Commit(connection, "t")), Refusal)
            self.model.release(connection)
        else:

            def carry_out() -> None:
                self.model.release(connection)
                for operation in operations:
                    operation()

            self.step(Commit(connection, "t"), carry_out)

    @precondition(lambda self: self.model.consumers)
    @rule(data=st.data())
    def detach(self, data: Any) -> None:
        consumer = data.draw(st.sampled_from(sorted(self.model.consumers)))
        self.step(Detach(consumer), lambda: self.model.gone(consumer, 0, True))

    @precondition(lambda self: len(self.connections) > 1)
    @rule(reason=st.sampled_from((reasons.CLOSED, reasons.DISCONNECTED)), data=st.data())
    def close(self, reason: int, data: Any) -> None:
        connection = data.draw(st.sampled_from(self.connections))
        self.connections.remove(connection)

        def leave() -> None:
            if connection in self.model.transactions:
                self.model.release(connection)
            for consumer in self.consumers_of(connection):
                self.model.gone(consumer, int(reason != reasons.CLOSED), True)

        self.step(CloseConnection(connection, reason), leave)

    @rule(name=st.sampled_from(QUEUES))
    def pause_or_resume(self, name: str) -> None:
        if name in self.model.paused:
            self.model.paused.remove(name)
            self.step(ResumeQueue(name))
        else:
            self.model.paused.add(name)
            self.step(PauseQueue(name))

    @rule(name=st.sampled_from(QUEUES))
    def purge(self, name: str) -> None:
        def empty() -> None:
            for item in [item for item in self.model.queues[name] if not item.holder]:
                self.model.queues[name].remove(item)

        self.step(PurgeQueue(name), empty)

    @rule()
    def release(self) -> None:
        def free() -> None:
            for item in self.model.queues["mails"]:
                item.held = False

        self.step(ReleaseHeld("mails"), free)

    @rule(has_way=st.booleans())
    def change_the_way(self, has_way: bool) -> None:
        self.step(self.settings("dead" if has_way else ""))
        self.step(RetryHeld(), lambda: self.model.retry(has_way))

    @rule(milliseconds=st.integers(1, 60))
    def wait(self, milliseconds: int) -> None:
        self.world.now += milliseconds * SECOND // 1000
        self.step(ExpireDue())

    @rule(cleanly=st.booleans())
    def restart(self, cleanly: bool) -> None:
        if cleanly:
            self.world.ok(Stop())
            assert not self.world.state.consumers
        self.world.restart()
        self.model.restart()
        self.connections = [self.world.connect()]
        self.catch_up_after_start()

    def catch_up_after_start(self) -> None:
        self.world.ok(ExpireDue())
        self.world.ok(DeliverDue())
        self.model.now_ms = self.world.now // 1000
        self.catch_up()

    @invariant()
    def same_contents(self) -> None:
        if not hasattr(self, "model"):
            return
        self.world.follow()
        for name, items in self.model.queues.items():
            assert self.world.ready(name) == [item.body for item in self.model.ready(name)]
            entries = self.world.entries(name)
            found = [
                (
                    entry.message.body,
                    entry.delivery_count,
                    entry.consumer.id if entry.consumer else 0,
                    entry.held,
                    entry.due,
                )
                for entry in entries
            ]
            assert found == [
                (item.body, item.count, item.holder, item.held, item.due) for item in items
            ]
            standing = [entry for entry in entries if entry.state == READY]
            ready = sum(not entry.held and not entry.due for entry in standing)
            queue = self.world.queue(name)
            assert (queue.ready_count, queue.scheduled_count) == (
                ready, sum(entry.due > 0 for entry in standing),
            )  # fmt: skip

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        if not hasattr(self, "model"):
            return
        for number, peer in self.model.consumers.items():
            assert self.world.state.consumers[number].credit_messages == peer["credit"]
            if peer["credit"] > 0 and peer["queue"] not in self.model.paused:
                assert not self.model.takeable(number)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.check()


class PagedDeliveryMachine(DeliveryMachine):
    """The same when next to nothing stays in memory."""

    def make_world(self, **options: Any) -> World:
        return PagedWorld(window=1, lag=3, **options)


TestDeliveryMachine = DeliveryMachine.TestCase
TestDeliveryMachine.settings = hypothesis_settings(stateful_step_count=40, deadline=None)
TestPagedDeliveryMachine = PagedDeliveryMachine.TestCase
TestPagedDeliveryMachine.settings = hypothesis_settings(stateful_step_count=40, deadline=None)
