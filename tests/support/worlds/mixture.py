"""Everything that a queue can be, on a few queues at once, with messages that have everything.

A story is a list of steps: an operation and three small numbers, whose meaning depends on what is
there. So every list is a story, also after shrinking. `Player` plays it on one world. Unlike
`tests.support.scenario`, which knows every command and many places, all happens on few names, so
that the rules of queues meet: ring and last value, groups and schedules, expiry and redelivery,
diverts and transactions, and settings and attributes that change in the middle.
"""

import random
from typing import Any

from hypothesis import strategies as st

from daybook.engine import commands as c
from daybook.engine.administration.message_moves import ACTIONS
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import (
    ANYCAST,
    BY_GROUP,
    CLOSEST,
    LINK_DETACH,
    MULTICAST,
    AutoLink,
    DistributionEntry,
    DivertDefinition,
    LinkRoute,
    Waypoint,
)
from daybook.engine.facts.events import GROUPED
from daybook.engine.facts.settlements import ACCEPTED, BY_GRANT, FAILED, REJECTED, RELEASED
from daybook.engine.messages.headers import build
from daybook.engine.refusals import Refusal
from tests.support.amqp.content import FORMAT, headers_for
from tests.support.scenario import annotations_by
from tests.support.topology import create_queue
from tests.support.world import MANY, SECOND, World
from tests.support.worlds.auditing import Auditor, DoorWorld
from tests.support.worlds.silent import Silent

Step = tuple[str, int, int, int]

OPERATIONS = {
    "send": 12, "attach": 4, "settle": 16, "credit": 3, "detach": 2, "lose": 1, "begin": 3,
    "commit": 4, "abort": 1, "sleep": 4, "purge": 1, "act": 3, "release": 1, "hasten": 1,
    "pause": 1, "retain": 2, "change": 3, "set": 3, "unset": 1, "divert": 1, "kill": 1,
    "stop": 1, "recreate": 3, "sweep": 1, "forget": 1, "turn": 4, "crowd": 3, "batch": 4,
    "strand": 1, "resume": 2, "steal": 1, "link": 4, "forward": 6, "conclude": 5, "leave": 1,
    "distribute": 1, "auto_link": 3,
}  # fmt: skip
"""Operations with how often they are drawn."""
_WHEEL = tuple(name for name, weight in OPERATIONS.items() for _ in range(weight))

QUEUES = {"q": ("q", ANYCAST), "r": ("q", ANYCAST), "m": ("q", MULTICAST), "c": ("c", ANYCAST)}
"""The queues that are mixed, by name: address and routing type. `c` also gets copies."""
NAMES = (*QUEUES, "dead", "late")
FILTERS = ("", "", "", "", "k=1", "kind='big'")
DIRECT = (
    "x.each", "x.each", "x/all", "x/near", "x.first", "x.way", "x.safe", "x.shards", "x.groups",
)  # fmt: skip
"""The direct addresses."""
DISTRIBUTIONS = (
    DistributionEntry(prefix="x"),
    DistributionEntry(pattern="x/safe", enable_fallback=True),
    DistributionEntry(pattern="x/way", waypoint=True),
    DistributionEntry(pattern="x/shards", waypoint=True),
    DistributionEntry(pattern="x/groups", waypoint=True),
    DistributionEntry(pattern="x/near", distribution=CLOSEST),
    DistributionEntry(pattern="x/all", distribution=MULTICAST),
    DistributionEntry(prefix="x/first", priority=7),
)
WAYPOINTS = (
    Waypoint("x.way"),
    Waypoint("x.shards", has_queue=True, shards=("a", "b")),
    Waypoint("x.groups", shard_by=BY_GROUP, shards=("a", "b")),
    Waypoint("x.safe"),
)
"""Addresses that have auto-links; the last one may also have a queue here."""
ROUTES = (
    LinkRoute(prefix="far", connector="east"),
    LinkRoute(prefix="far", is_in=False, connector="east"),
)
"""Routes of links, in both directions."""

Values = dict[str, tuple[bool | int | str | float, ...]]

KINDS: Values = {
    "ring_size": (-1, -1, -1, 0, 1, 3),
    "last_value_key": ("", "", "k", "kind"),
    "last_value": (False, False, True),
    "non_destructive": (False, False, False, True),
    "exclusive": (False, False, True),
    "filter": FILTERS,
    "max_consumers": (-1, -1, 1, 2),
    "auto_delete": (False, False, False, True),
    "auto_delete_delay": (0, 20),
    "auto_delete_message_count": (0, 1, -1),
    "enabled": (True, True, True, False),
    "consumers_before_dispatch": (0, 0, 0, 2),
    "delay_before_dispatch": (-1, -1, 20),
    "purge_on_no_consumers": (False, False, False, True),
    "group_rebalance": (False, True),
    "group_rebalance_pause_dispatch": (False, True),
    "group_buckets": (-1, -1, 0, 2),
    "group_hashing": (False, True),
    "group_first_key": ("", "first"),
    "durable": (True, True, True, False),
}
"""The attributes of queues, with the values that they have here."""
FIXED = ("last_value_key", "last_value", "durable")
"""Those that no queue can change."""
SETTINGS: Values = {
    "redelivery-delay": (0, 20, 40),
    "redelivery-delay-multiplier": (1.0, 2.0),
    "redelivery-collision-avoidance-factor": (0.0, 0.5),
    "max-redelivery-delay": (-1, 30),
    "max-delivery-attempts": (-1, 1, 2, 3),
    "dead-letter-address": ("", "dead", "c"),
    "dead-letter-policy": ("HOLD", "HOLD", "DROP"),
    "auto-create-dead-letter-resources": (False, True),
    "send-to-dla-on-no-route": (False, True),
    "expiry-address": ("", "late", "q"),
    "auto-create-expiry-resources": (False, True),
    "expiry-delay": (-1, -1, 15),
    "min-expiry-delay": (-1, -1, 20),
    "max-expiry-delay": (-1, -1, 25),
    "no-expiry": (False, False, True),
    "default-ring-size": (-1, 1, 2),
    "default-last-value-key": ("", "k"),
    "default-non-destructive": (False, True),
    "default-purge-on-no-consumers": (False, True),
    "default-group-rebalance": (False, True),
    "default-group-hashing": (False, False, True),
    "default-consumers-before-dispatch": (0, 2),
    "id-cache-size": (0, 1, 3, 100),
    "auto-delete-queues": (True, False),
    "auto-delete-queues-delay": (0, 20),
    "auto-delete-queues-message-count": (0, 1, -1),
    "auto-delete-queues-skip-usage-check": (False, True),
    "max-size-messages": (-1, -1, 2, 6),
    "address-full-policy": ("PAGE", "DROP", "FAIL"),
    "page-limit-messages": (-1, 4),
    "page-full-policy": ("DROP", "FAIL"),
    "retroactive-message-count": (0, 2, 5),
}
"""Keys of address settings, with the values that they have here."""
MATCHES = ("q", "#", "c")

_small = st.integers(0, 11)
kinds = st.lists(
    st.fixed_dictionaries({key: st.sampled_from(values) for key, values in KINDS.items()}),
    min_size=len(QUEUES), max_size=len(QUEUES),
)  # fmt: skip
stories = st.lists(st.tuples(st.sampled_from(_WHEEL), _small, _small, _small), max_size=50)


def draw(seed: int, steps: int) -> tuple[list[dict[str, Any]], list[Step]]:
    """Return kinds and a story, without hypothesis: for long searches."""
    chance = random.Random(seed)
    # Each story uses some rules and not others, or none would be seen for long.
    used = set(chance.sample(sorted(KINDS), chance.randint(2, len(KINDS))))
    chosen: list[dict[str, Any]] = [
        {key: chance.choice(values) if key in used else values[0] for key, values in KINDS.items()}
        for _ in QUEUES
    ]
    words = chance.sample(sorted(OPERATIONS), chance.randint(12, len(OPERATIONS)))
    wheel = [word for word in _WHEEL if word in {*words, "send", "settle", "crowd", "batch"}]
    story = [
        (chance.choice(wheel), chance.randint(0, 11), chance.randint(0, 11), chance.randint(0, 11))
        for _ in range(steps)
    ]
    return chosen, story


class Player:
    """Plays a story. With `is_judged` whatever the world decides is judged, too, by the audit
    and by the laws of all worlds."""

    def __init__(
        self, world: World, kinds: list[dict[str, Any]], *, is_judged: bool = False
    ) -> None:
        self.world = world
        self.is_judged = is_judged
        self.kinds = dict(zip(QUEUES, kinds, strict=True))
        self.serial = 0
        self.seen = 0
        # By body: the earliest delivery and the expiry that the sender asked for.
        self.asked: dict[bytes, tuple[int, int]] = {}
        self.auditor = Auditor(self.asked)
        self.ends: list[int] = []
        world.settings(
            q={"max_delivery_attempts": 2, "redelivery_delay": 20, "dead_letter_address": "dead"},
            c={"retroactive_message_count": 3},
        )
        world.ok(c.CreateAddress("q", (ANYCAST, MULTICAST)))
        for name in QUEUES:
            self.create(name)
        for name in ("dead", "late"):
            world.ok(create_queue(name, name))
        self.begin_life()

    def begin_life(self) -> None:
        self.world.ok(c.ChangeDistributions(DISTRIBUTIONS, "stored", WAYPOINTS, ROUTES))
        self.connections = [self.world.connect(), self.world.connect()]
        self.connector = self.world.ok(
            c.OpenConnection("amqp", "east", "", room=MANY, connector="east")
        )
        for number, name in enumerate(QUEUES):
            place = self.connections[number % 2]
            self.world.handle(c.Attach(place, QUEUES[name][0], queue=name, credit_messages=2))
        for number, name in enumerate((*DIRECT, "x/all")):
            self.world.handle(c.Attach(self.connection(number), name, credit_messages=1))
        for name in ("x.each", "", "x.way", "x.shards", "x.groups", "x.safe"):
            self.world.handle(c.AttachSender(self.connection(1), name))
        for number in range(6):
            self.auto_link(5 + number, number, number)
        for connection in self.connections:
            self.world.ok(c.HostLinks(connection, Silent(), "east"))
        self.turn(0, 0, 0)

    def create(self, name: str) -> None:
        address, routing_type = QUEUES[name]
        self.world.handle(create_queue(name, address, routing_type, **self.kinds[name]))

    def note_end(self) -> None:
        """A block ends here: a broker that is killed may have written up to it."""
        if not self.ends or self.ends[-1] < len(self.world.journal):
            self.ends.append(len(self.world.journal))

    def play(self, story: list[Step]) -> None:
        for operation, x, y, z in story:
            self.world.now += 3_000
            getattr(self, operation)(x, y, z)
        self.turn(0, 0, 0)

    def turn(self, x: int, y: int, z: int) -> None:
        """Decide all that is left to decide, and look at the clock."""
        world = self.world
        world.turn()
        self.empty()
        for command in (c.DeliverDue(100), c.ExpireDue(100)):
            world.ok(command)
        while world.broker.later or world.broker.work.purging:
            world.turn()
        self.note_end()
        if self.is_judged:
            assert isinstance(world, DoorWorld)
            self.auditor.take(world)
            self.auditor.at_rest(world.state)
            world.follow()

    # ---- consumers and transactions that exist

    def connection(self, number: int) -> int:
        return self.connections[number % len(self.connections)]

    def consumers(self) -> list[int]:
        return sorted(self.world.state.consumers)

    def transaction(self, connection: int, number: int) -> str | None:
        found = self.world.state.connections.get(connection)
        is_open = found is not None and "t" in found.transactions
        return "t" if is_open and number % 3 else None

    # ---- messages

    def send(self, x: int, y: int, z: int) -> None:
        """Send a message with everything that the numbers say, to an address or to a queue."""
        self.serial += 1
        now_ms = self.world.now // 1000
        connection = self.connection(x)
        properties = [("kind", "big" if y % 2 else "small")]
        if x < 9:
            properties.append(("k", str(x % 3)))
        if y % 4 == 1:
            properties.append(("_AMQ_LVQ_NAME", str(z % 2)))
        group = f"g{(x + y) % 3}" if z < 6 else ""
        if group:
            properties.append(("JMSXGroupID", group))
            if x == 7:
                properties.append(("JMSXGroupSeq", "-1"))
        queue = NAMES[z % 4] if y == 5 else None
        duplicate_id = f"i{(y + z) % 4}" if (x * y) % 5 == 1 else ""
        if duplicate_id:
            properties.append(("_AMQ_DUPL_ID", duplicate_id))
        body = b"%d" % self.serial
        # Large bodies, and the ends of groups, are said otherwise in AMQP.
        is_amqp = self.serial % 3 == 0 and x not in (7, 10)
        command = c.Send(
            connection,
            QUEUES[queue][0] if queue else ("q", "q", "q", "c", "dead")[z % 5],
            headers_for(body, properties, group) if is_amqp else build(properties),
            body,
            routing_type=(None, None, ANYCAST, MULTICAST)[x % 4] if queue is None else None,
            queue=queue,
            priority=(4, 4, 4, 7, 0)[(x + z) % 5],
            persistent=y != 3,
            expires=now_ms + 5 + 3 * z if (x + y) % 4 == 0 else 0,
            transaction=self.transaction(connection, z),
            duplicate_id=duplicate_id,
            format=(GROUPED if group else 0) | (FORMAT if is_amqp else 0),
            due=now_ms + 4 * y if (y + z) % 4 == 2 else 0,
        )
        self.asked[command.body] = (command.due, command.expires)
        if x == 10:
            self.enlarge(command)
        self.world.handle(command)

    def retain(self, x: int, y: int, z: int) -> None:
        """A message that its address remembers, or that makes it forget."""
        self.serial += 1
        command = c.Send(
            self.connection(x), ("q", "q", "c")[x % 3], build([("kind", "big"), ("k", str(y % 3))]),
            b"%d" % self.serial, MULTICAST, persistent=y != 3,
            expires=self.world.now // 1000 + 5 + 3 * z if y % 4 == 0 else 0,
            transaction=self.transaction(self.connection(x), z),
            retain=(c.RETAIN_SET, c.RETAIN_SET, c.RETAIN_REMOVE)[z % 3],
        )  # fmt: skip
        self.asked[command.body] = (0, command.expires)
        self.world.handle(command)
        if y == 7:
            self.world.handle(c.ForgetRetained("q"))

    def enlarge(self, command: c.Send) -> None:
        """Send it in pieces, unless the first one is refused."""
        lsn = 0
        for _ in range(2):
            answer = self.world.handle(c.Chunk(command, command.body, lsn))
            if isinstance(answer, Refusal):
                return
            lsn = answer
            command.chunks += (lsn,)
        command.body_bytes = 2 * len(command.body)
        command.body = b""

    def settle(self, x: int, y: int, z: int) -> None:
        """End deliveries, in or out of a transaction."""
        self.world.turn()
        for consumer in [*self.consumers()[x % 3 :], *self.consumers()]:
            found = self.world.state.consumers[consumer]
            messages = [*found.unacked, *found.shown]
            if messages:
                transaction = self.transaction(found.connection_id, z)
                outcome = (ACCEPTED, ACCEPTED, ACCEPTED, FAILED, FAILED, RELEASED, REJECTED)[y % 7]
                message = messages[z % len(messages)]
                said = ("", "", "bad")[z % 3], ("", "amqp:illegal-state")[z % 2], y % 4 == 0
                command = c.Settle(
                    consumer, message, x % 4 == 0, transaction, outcome, *said,
                    annotations_by(y, z) if x % 4 else None,
                )  # fmt: skip
                self.world.handle(command)
                return

    # ---- consumers, connections, transactions

    def attach(self, x: int, y: int, z: int) -> None:
        name = NAMES[x % 6] if x < 9 else "q"
        self.world.handle(
            c.Attach(
                self.connection(y), QUEUES.get(name, (name,))[0], queue=name,
                filter=FILTERS[z % 6], acknowledges=z != 7, credit_messages=y + 1, credit_bytes=10,
                priority=(0, 0, 0, 5, -5)[(x + z) % 5],
                browses=(y + z) % 5 == 3, listens=x % 2 == 0,
                from_sequence=(x * z) ** 2 % 90 - 1 if x % 4 == 3 else None,
            )
        )  # fmt: skip

    def resume(self, x: int, y: int, z: int) -> None:
        """A client comes back, and says what it did with a message that it had."""
        known = self.world.state.consumers
        having = [each for each in self.consumers() if known[each].unacked]
        if not having:
            return
        before = known[having[x % len(having)]]
        queue, message = before.queue, next(iter(before.unacked))
        self.world.handle(c.Detach(before.id))
        consumer = self.world.handle(
            c.Attach(
                self.connection(y), queue.address.name, queue=queue.name,
                filter=FILTERS[z % 6], credit_policy=BY_GRANT, credit_messages=x % 2,
                credit_bytes=0,
            )
        )  # fmt: skip
        if isinstance(consumer, Refusal):
            return
        self.world.handle(c.Resume(consumer, message))
        if z % 3:
            outcome = (ACCEPTED, ACCEPTED, FAILED, RELEASED, REJECTED)[y % 5]
            self.world.handle(c.Settle(consumer, message, outcome=outcome))

    def steal(self, x: int, y: int, z: int) -> None:
        """A link takes a subscription over from another one."""
        command = c.Attach(
            self.connection(y), "q", routing_type=MULTICAST, durable_name=f"s{z % 2}",
            credit_messages=y, credit_bytes=0, steals=x % 4 > 0,
            expiry_policy=("", LINK_DETACH)[x % 2], durable=x % 2 == 0,
        )  # fmt: skip
        self.world.handle(command)

    def crowd(self, x: int, y: int, z: int) -> None:
        """Two consumers come to one queue, with little credit."""
        name = NAMES[x % 4]
        for number in range(2):
            command = c.Attach(
                self.connection(y + number), QUEUES[name][0], queue=name,
                credit_messages=1 + z % 3, credit_bytes=0,
            )  # fmt: skip
            self.world.handle(command)

    def batch(self, x: int, y: int, z: int) -> None:
        """Some messages come to one queue at once, of one group or of several."""
        name = NAMES[x % 4]
        for number in range(2 + z % 4):
            self.serial += 1
            group = f"g{number % (1 + y % 3)}"
            command = c.Send(
                self.connection(y), QUEUES[name][0],
                build([("JMSXGroupID", group), ("k", str(number % 3))]), b"%d" % self.serial,
                queue=name, format=GROUPED,
            )  # fmt: skip
            self.world.handle(command)
        self.turn(x, y, z)

    def credit(self, x: int, y: int, z: int) -> None:
        for consumer in self.consumers()[x % 4 :][:1]:
            self.world.handle(c.Credit(consumer, y, z))

    def detach(self, x: int, y: int, z: int) -> None:
        for consumer in self.consumers()[x % 4 :][:1]:
            self.world.handle(c.Detach(consumer))

    def lose(self, x: int, y: int, z: int) -> None:
        """A connection ends, cleanly or not, and another one comes."""
        place = x % len(self.connections)
        reason = (reasons.DISCONNECTED, reasons.CLOSED, reasons.TIMEOUT)[y % 3]
        self.world.handle(c.CloseConnection(self.connections[place], reason))
        self.connections[place] = self.world.connect()

    def begin(self, x: int, y: int, z: int) -> None:
        self.world.handle(c.Begin(self.connection(x), "t"))

    def commit(self, x: int, y: int, z: int) -> None:
        self.world.handle(c.Commit(self.connection(x), "t"))

    def abort(self, x: int, y: int, z: int) -> None:
        self.world.handle(c.Rollback(self.connection(x), "t"))

    # ---- direct addresses

    def link(self, x: int, y: int, z: int) -> None:
        """A link to a direct address begins: of a sender, which may be anonymous, or a receiver."""
        name, connection = DIRECT[x % len(DIRECT)], self.connection(y)
        if z % 7 == 6:
            self.world.handle(c.RouteLink(connection, "far.q", x % 2 == 0, "r", None, Silent()))
            return
        if z % 4 == 0:
            self.world.handle(c.AttachSender(connection, name if y % 3 else "", link=x, name="s"))
            return
        self.world.handle(
            c.Attach(
                connection, name, subscription="r", acknowledges=z % 4 < 3,
                credit_policy=BY_GRANT, credit_messages=x % 4, credit_bytes=0,
            )
        )  # fmt: skip

    def auto_link(self, x: int, y: int, z: int) -> None:
        """An auto-link begins, mostly on the connection of the connector: out or in."""
        name, is_out = DIRECT[x % len(DIRECT)], z % 3 > 0
        is_fallback = name == "x.safe" and y % 4 > 0
        link = AutoLink(
            f"{name} {x} {y} {z}", name, name, is_out,
            (0 if is_out != (y == 7) or name == "x.safe" else 1), is_fallback, 1 + z % 3,
            "ab"[y % 2],
        )  # fmt: skip
        connection = self.connector if y % 5 else self.connection(x)
        if not is_out:
            self.world.handle(c.AttachSender(connection, name, link=y, auto_link=link))
            return
        self.world.handle(
            c.Attach(
                connection, name, subscription="out", credit_policy=BY_GRANT,
                credit_messages=1 + x % 4, credit_bytes=0, auto_link=link,
            )
        )  # fmt: skip

    def empty(self) -> None:
        """Hand what came to consumers of the broker itself to them."""
        world = self.world
        deliveries, self.seen = world.deliveries[self.seen :], len(world.deliveries)
        for each in deliveries:
            consumer = world.state.consumers.get(each.consumer)
            entry = consumer.unacked.get(each.message) if consumer is not None else None
            if consumer is not None and entry is not None and consumer.receiver is not None:
                consumer.receiver.deliver(entry.message, each.attempt, 0, each.gate)
        world.turn()

    def forward(self, x: int, y: int, z: int) -> None:
        """Some messages go to direct addresses, by links of senders or without one."""
        direct = self.world.broker.direct
        # Links of the broker itself are not for others.
        senders = [each for each in direct.senders.values() if each.receiver is None]
        for number in range(1 + z % 3):
            self.serial += 1
            sender = senders[(x + number) % len(senders)] if senders and y % 4 else None
            place = sender.address if sender is not None else None
            command = c.Send(
                sender.connection_id if sender is not None else self.connection(x),
                place.name if place is not None else DIRECT[(y + z) % len(DIRECT)],
                build([("JMSXGroupID", f"g{y % 3}")] if z % 2 else [("kind", "big")]),
                b"%d" % self.serial, format=GROUPED if z % 2 else 0,
                priority=(4, 4, 7)[y % 3], persistent=y % 2 == 0,
                sender=sender.id if sender is not None else 0,
                token=self.serial if sender is not None and y % 4 < 3 else None,
            )  # fmt: skip
            if x == 10:
                self.enlarge(command)
            self.world.handle(command)

    def conclude(self, x: int, y: int, z: int) -> None:
        """Receivers of direct addresses get credit, and end deliveries."""
        for link in list(self.world.broker.direct.receivers.values())[x % 3 :]:
            self.world.handle(c.Credit(link.id, 1 + y % 3))
            messages = list(link.outstanding)
            if messages:
                outcome = (ACCEPTED, ACCEPTED, FAILED, RELEASED, REJECTED)[y % 5]
                said = ("", "", "bad")[z % 3], ("", "amqp:illegal-state")[z % 2], y % 4 == 0
                message = messages[z % len(messages)]
                self.world.handle(c.Settle(link.id, message, x % 4 == 0, None, outcome, *said))

    def leave(self, x: int, y: int, z: int) -> None:
        """A link to a direct address ends."""
        direct = self.world.broker.direct
        for link in list(self.world.broker.routed.links.values())[z % 4 :][:1]:
            self.world.handle(c.EndRoutedLink(link.id, link.ends[y % 2].connection_id))
            return
        own = direct.of_connection.get(direct.connection, {})
        links = sorted({*direct.senders, *direct.receivers} - {*own})
        for number in links[x % 4 :][:1]:
            is_sender = number in direct.senders
            self.world.handle(c.DetachSender(number) if is_sender else c.Detach(number))

    def distribute(self, x: int, y: int, z: int) -> None:
        """Another table is in force, with one entry less or one more, and other auto-links."""
        entries = DISTRIBUTIONS[: 1 + x % len(DISTRIBUTIONS)]
        waypoints, routes = WAYPOINTS[: 1 + y % 4], ROUTES[z % 2 :]
        self.world.ok(c.ChangeDistributions(entries, "stored", waypoints, routes))

    # ---- administration

    def purge(self, x: int, y: int, z: int) -> None:
        self.world.handle(c.PurgeQueue(NAMES[x % 6], limit=1 + y))

    def act(self, x: int, y: int, z: int) -> None:
        self.world.handle(
            c.ActOnMessages(
                NAMES[x % 6], sorted(ACTIONS)[y % len(ACTIONS)], filter=FILTERS[z % 6],
                target=NAMES[z % 6], priority=z % 10, limit=1 + z,
            )
        )  # fmt: skip

    def release(self, x: int, y: int, z: int) -> None:
        command = c.RetryHeld(1 + y) if x % 2 else c.ReleaseHeld(NAMES[y % 4], limit=1 + z)
        self.world.handle(command)

    def hasten(self, x: int, y: int, z: int) -> None:
        self.world.handle(c.DeliverScheduled(NAMES[x % 6], limit=1 + y))

    def strand(self, x: int, y: int, z: int) -> None:
        """Let what is in flight from a queue fail where nothing takes dead letters, and leave.

        Sometimes the queue is one that is deleted when nobody uses it.
        """
        values: dict[str, Any] = {"dead-letter-address": "", "max-delivery-attempts": 1}
        self.world.handle(c.SetSettings("#", values))
        self.world.handle(c.SetSettings("q", values))
        if y % 2:
            changes: dict[str, Any] = {"auto_delete": True, "auto_delete_delay": 0}
            self.world.handle(c.UpdateQueue(NAMES[x % 4], {**changes, "exclusive": False}))
        self.world.turn()
        queue = self.world.state.queue_by_name.get(NAMES[x % 4])
        for consumer in list(queue.consumers) if queue is not None else []:
            for message in list(consumer.unacked)[: 1 + z % 3]:
                self.world.handle(c.Settle(consumer.id, message, outcome=FAILED))
            self.world.handle(c.Detach(consumer.id))
        self.turn(x, y, z)
        self.sweep(x, y, z)

    def pause(self, x: int, y: int, z: int) -> None:
        """Pause or resume a queue or an address; mostly resume."""
        kinds = (c.PauseQueue, c.ResumeQueue, c.ResumeQueue)
        places = (c.PauseAddress, c.ResumeAddress, c.ResumeAddress)
        self.world.handle(kinds[y % 3](NAMES[x % 4]) if z % 3 else places[y % 3]("q"))

    def change(self, x: int, y: int, z: int) -> None:
        """Change two attributes of a queue."""
        live = [key for key in KINDS if key not in FIXED]
        fields = {live[y % len(live)], live[(5 * z + x) % len(live)]}
        changes: dict[str, Any] = {key: KINDS[key][(x + z) % len(KINDS[key])] for key in fields}
        self.world.handle(c.UpdateQueue(NAMES[x % 4], changes))

    def set(self, x: int, y: int, z: int) -> None:
        """Set two keys of settings at run time."""
        keys = sorted(SETTINGS)
        chosen = {keys[(y + 7 * z) % len(keys)], keys[(11 * y + x) % len(keys)]}
        values: dict[str, Any] = {
            key: SETTINGS[key][(x + z) % len(SETTINGS[key])] for key in chosen
        }
        self.world.handle(c.SetSettings(MATCHES[x % 3], values))

    def unset(self, x: int, y: int, z: int) -> None:
        self.world.handle(c.RemoveSettings(MATCHES[x % 3]))

    def divert(self, x: int, y: int, z: int) -> None:
        """Create a divert to the copies, or delete it."""
        if y > 7:
            self.world.handle(c.DeleteDivert("d"))
            return
        definition = DivertDefinition(
            name="d", address=("q", "q", "dead", "late")[z % 4],
            forwarding_addresses=("c", "q")[: 1 + (z > 5)],
            exclusive=y % 2 == 0, filter=FILTERS[x % 6],
            routing_type=("strip", "pass", ANYCAST)[x % 3],
        )  # fmt: skip
        self.world.handle(c.CreateDivert(definition, replaces=True))

    def recreate(self, x: int, y: int, z: int) -> None:
        """Delete a queue, and mostly create it again, as it was or as another kind.

        It gets what its address remembers.
        """
        name = NAMES[x % 4]
        if name in self.world.state.queue_by_name:
            if y % 2 == 0:
                self.world.handle(c.DeleteQueue(name, force=z % 4 > 0))
                self.turn(x, y, z)
            if z % 3 == 0 or name in self.world.state.queue_by_name:
                return
        other = list(QUEUES)[y % 4]
        self.kinds[name] = self.kinds[other]
        self.create(name)

    def sweep(self, x: int, y: int, z: int) -> None:
        """Delete what nobody uses, some time later."""
        self.world.now += z * 10_000
        self.world.handle(c.DeleteUnused())

    def forget(self, x: int, y: int, z: int) -> None:
        self.world.handle(c.ClearDuplicateIds("q"))

    # ---- time, and ends of the broker

    def sleep(self, x: int, y: int, z: int) -> None:
        self.world.now += (x + 1) * SECOND // 200

    def kill(self, x: int, y: int, z: int) -> None:
        """Kill the broker; up to three blocks of what it decided were not durable."""
        self.world.turn()
        self.note_end()
        end = self.ends[-min(len(self.ends), 1 + x % 4)]
        self.ends = [each for each in self.ends if each <= end]
        self.world.lose(end, y % 3)
        self.auditor = Auditor(self.asked)
        self.begin_life()

    def stop(self, x: int, y: int, z: int) -> None:
        self.world.ok(c.Stop())
        self.world.restart()
        self.begin_life()
