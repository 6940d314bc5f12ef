"""A run in which any features of the broker may meet: each seed draws which (swarm testing).

Clients use what `tests.simulation.peers.swarm_clients` has; here is what administrators do, which
permissions and settings change, and what the wall clock does. All names begin with `kinds.PREFIX`.
All chance is its own, so that a mistake in the clients does not change what administrators do.
"""

import random
from typing import TYPE_CHECKING, Any

from daybook.engine import commands as c
from daybook.engine.administration.message_moves import ACTIONS
from daybook.engine.broker import Broker
from daybook.engine.core.permission_checks import refused_consumer
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, DivertDefinition
from daybook.engine.limits.host_limits import HostLimits
from daybook.engine.names.names import HOST
from daybook.engine.settings.permissions import (
    ANYONE,
    BROWSE,
    CONSUME,
    PERMISSIONS,
    SEND,
    Permissions,
)
from daybook.server.hub.hub import Hub
from tests.simulation.counts import SwarmCounts
from tests.simulation.peers.kinds import LATE, MATCH, MIXED, PREFIX, STAYS, is_mixed
from tests.simulation.peers.swarm_clients import CLIENT_FEATURES, OTHER_HOST, draw_features
from tests.support.topology import create_queue
from tests.support.worlds.mixture import KINDS
from tests.support.worlds.mixture import SETTINGS as MIXTURE

if TYPE_CHECKING:
    from tests.simulation.machine.incarnation import Incarnation
    from tests.simulation.simulation import Simulation

DEAD = f"{PREFIX}dead"
SPARE = f"{PREFIX}spare"
TOPIC = f"{PREFIX}t.a"
QUEUES = (*MIXED, LATE, DEAD)
RUN_FEATURES = (
    "settings", "attributes", "messages moved", "pauses", "places", "diverts", "groups reset",
    "ids forgotten", "permissions", "logins", "clock", "transactions expire", "connections closed",
    "limits",
)  # fmt: skip
FEATURES = (*CLIENT_FEATURES, *RUN_FEATURES)
SETTINGS: dict[str, tuple[Any, ...]] = {
    # All ids stay remembered, or clients would not know what a duplicate is.
    **{key: values for key, values in MIXTURE.items() if key != "id-cache-size"},
    "dead-letter-address": ("", DEAD, DEAD, f"{PREFIX}three"),
    "expiry-address": ("", "expired", f"{PREFIX}three", DEAD),
    "max-delivery-attempts": (-1, 1, 2, 3),
    "address-full-policy": ("PAGE", "DROP", "FAIL", "BLOCK"),
    "max-size-bytes": (-1, -1, 30_000),
    "page-limit-bytes": (-1, 60_000),
    "retroactive-max-age": (-1, 2_000),
    "retroactive-bytes": (-1, 20_000),
    "auto-delete-addresses": (True, False),
    "auto-delete-addresses-delay": (0, 20),
    "slow-consumer-threshold": (-1, -1, 100),
    "slow-consumer-check-period": (1, 5),
    "slow-consumer-policy": ("NOTIFY", "KILL"),
}
"""Keys of address settings that change at run time, with the values that they have here."""
CLOSED = "closed by an administrator"
TOGETHER: tuple[dict[str, str | int | bool | float], ...] = (
    {"address-full-policy": "PAGE", "max-size-messages": 1, "page-limit-messages": 3,
     "page-full-policy": "DROP"},
    {"address-full-policy": "PAGE", "max-size-messages": 1, "page-limit-bytes": 3_000,
     "page-full-policy": "DROP"},
    {"address-full-policy": "DROP", "max-size-bytes": 2_000, "max-size-messages": -1},
    {"dead-letter-address": "", "dead-letter-policy": "DROP", "max-delivery-attempts": 1},
    {"dead-letter-address": f"{PREFIX}nowhere", "auto-create-dead-letter-resources": False,
     "dead-letter-policy": "HOLD", "max-delivery-attempts": 1},
    {"expiry-address": f"{PREFIX}nowhere", "dead-letter-policy": "DROP", "max-expiry-delay": 10},
    {"send-to-dla-on-no-route": True, "dead-letter-address": DEAD},
    {"retroactive-message-count": 40, "retroactive-max-age": 1},
)  # fmt: skip
"""Settings that mean something together, which chance would seldom bring about."""
BACK_US = (50_000, 5_000_000, 600_000_000)


class WallClock:
    """The clock that the broker reads: the simulated time, with what it was set back or forth."""

    def __init__(self, now: Any) -> None:
        self._now = now
        self.offset = 0
        self._noticed = 0

    def __call__(self) -> int:
        now: int = self._now() + self.offset
        return now

    def step(self) -> int:
        """Return by how much it was set since this was asked last."""
        step = self.offset - self._noticed
        self._noticed = self.offset
        return step


class Swarm:
    """The features of a run, and the actions of its administrators."""

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self.chance = chance = random.Random(f"swarm {simulation.seed}")
        self.drawn = draw_features(chance, FEATURES) | simulation.languages.features
        self.features = self.drawn - simulation.hooks.without
        self.wall = WallClock(simulation.clock)
        # Otherwise nothing would be dead-lettered, and little would ever be held.
        self._settings: dict[str, str | int | bool | float] = {
            "dead-letter-address": chance.choice((DEAD, DEAD, "")),
            "max-delivery-attempts": chance.choice((1, 2, 3)),
        }
        self._restless = chance.choice((0.002, 0.01, 0.03))
        self._keys = sorted(chance.sample(sorted(SETTINGS), chance.randint(3, len(SETTINGS))))
        self._deeds = [
            deed
            for feature, deeds in (
                ("settings", (self._set, self._set, self._set, self._unset)),
                ("attributes", (self._update, self._update)),
                (
                    "messages moved",
                    (self._act, self._act, self._release, self._hasten, self._purge),
                ),
                ("pauses", (self._pause, self._pause_address)),
                ("places", (self._recreate, self._delete, self._spare, self._routing_types)),
                ("diverts", (self._divert, self._undivert)),
                ("groups reset", (self._reset_groups,)),
                ("ids forgotten", (self._forget_ids,)),
                ("retained", (self._forget_retained,)),
                ("transactions expire", (self._expire_transactions,)),
            )
            for deed in deeds * (feature in self.features)
        ]
        self._rules: dict[str, dict[str, tuple[str, ...]]] = {}
        self.counts = SwarmCounts()

    def adapt(self) -> None:
        """Let the run have what its features need; its judge knows what clients say."""
        hosts = (("sim", HOST), *((name, name) for name in self.hosts()))
        self._simulation.use_hosts(hosts if len(hosts) > 1 else ())

    def refuses_login(self) -> bool:
        """Draw whether a login is refused."""
        refuses = "logins" in self.features and self.chance.random() < 0.1
        self.counts.refused_logins += refuses
        return refuses

    def hosts(self) -> dict[str, HostLimits]:
        """The virtual hosts of the run, besides the default one."""
        if "hosts" not in self.features:
            return {}
        limits = HostLimits()
        if "limits" in self.features:
            limits = HostLimits(max_connections=2, max_queues=12, max_size=20_000)
        return {OTHER_HOST: limits}

    # ---- a life of the broker

    def begin(self, hub: Hub, broker: Broker) -> None:
        """Create what is missing, and put the rules in force."""
        for name in (DEAD, "dead", "expired"):
            hub.request(create_queue(name, name))
        for host in self.hosts():
            for name in (*MIXED, DEAD):
                full = f"{host}::{name}"
                hub.request(create_queue(full, full))
        if "max-delivery-attempts" not in broker.state.settings.live.get(MATCH, ()):
            hub.request(c.SetSettings(MATCH, self._settings))
        broker.permit(self._permissions())

    def step(self, hub: Hub, broker: Broker) -> None:
        """Perhaps let an administrator do something, or the clock jump."""
        if self.chance.random() >= self._restless or hub.stopping or hub.failure:
            return
        chance = self.chance
        if "permissions" in self.features and chance.random() < 0.1:
            self._change_permissions(hub, broker)
        elif "clock" in self.features and chance.random() < 0.1:
            self._set_clock()
        elif "connections closed" in self.features and chance.random() < 0.05:
            connections = list(broker.state.connections)
            if connections:
                hub.close_connection(chance.choice(connections), CLOSED, "connect again")
        elif self._deeds:
            self._order(hub, chance.choice(self._deeds)())

    def _order(self, hub: Hub, command: c.Command) -> None:
        # The audit cannot tell what was done to messages without a request from a mistake.
        is_named = self.chance.random() < 0.5 or isinstance(command, c.ActOnMessages)
        self.counts.orders += 1
        self._simulation.note(f"order: {command}")
        hub.request(c.Administer("sim", "drawn", command) if is_named else command)

    def settle(self, life: "Incarnation | None") -> None:
        """Give back all permissions and the time; nobody orders anything from now on."""
        self.features -= set(RUN_FEATURES)
        self._restless, self._rules = 0.0, {}
        self.wall.offset = 0
        if life is not None:
            life.broker.permit(self._permissions())

    # ---- time and permissions

    def _set_clock(self) -> None:
        """Set the wall clock back, or forth again."""
        wall = self.wall
        step = -self.chance.choice(BACK_US) if wall.offset == 0 else -wall.offset
        wall.offset += step
        self.counts.clock_steps += 1
        self._simulation.note(f"the clock is set by {step} us")

    def _permissions(self) -> Permissions:
        everything = dict.fromkeys(PERMISSIONS, (ANYONE,))
        return Permissions({"#": everything, **self._rules})

    def _change_permissions(self, hub: Hub, broker: Broker) -> None:
        """Take a permission at one place, or give all back; who may not consume any more ends."""
        self._rules = {}
        self.counts.permissions += 1
        if self.chance.random() < 0.6:
            place = self.chance.choice((*MIXED, TOPIC, MATCH))
            taken = self.chance.choice((SEND, CONSUME, BROWSE))
            self._rules = {place: {key: (ANYONE,) for key in PERMISSIONS if key != taken}}
        self._simulation.note(f"permissions: {list(self._rules)}")
        permissions = self._permissions()
        broker.permit(permissions)
        for consumer in list(broker.state.consumers.values()):
            if not consumer.is_found:
                refusal = refused_consumer(broker.state, permissions, consumer)
                if refusal is not None:
                    hub.close_connection(consumer.connection_id, refusal.text, "ask for it")
        broker.let_wildcards_follow()

    # ---- orders

    def _queue(self) -> str:
        name = self.chance.choice(QUEUES)
        if "hosts" in self.features and name in MIXED and self.chance.random() < 0.2:
            return f"{OTHER_HOST}::{name}"
        return name

    def _set(self) -> c.Command:
        if self.chance.random() < 0.3:
            return c.SetSettings(MATCH, self.chance.choice(TOGETHER))
        keys = self.chance.sample(self._keys, min(2, len(self._keys)))
        return c.SetSettings(MATCH, {key: self.chance.choice(SETTINGS[key]) for key in keys})

    def _unset(self) -> c.Command:
        return c.RemoveSettings(MATCH, (self.chance.choice(self._keys),))

    def _update(self) -> c.Command:
        key = self.chance.choice(sorted(set(KINDS) - STAYS))
        return c.UpdateQueue(self._queue(), {key: self.chance.choice(KINDS[key])})  # type: ignore[dict-item]

    def _act(self) -> c.Command:
        chance = self.chance
        name = self._queue()
        host, divider, _ = name.rpartition("::")
        return c.ActOnMessages(
            name, chance.choice(sorted(ACTIONS)), filter=chance.choice(("", "", "k = '1'")),
            target=f"{host}{divider}{chance.choice(list(MIXED))}",
            priority=chance.randrange(10), limit=chance.randint(1, 9),
        )  # fmt: skip

    def _release(self) -> c.Command:
        if self.chance.random() < 0.5:
            return c.RetryHeld(5)
        return c.ReleaseHeld(self._queue(), limit=self.chance.randint(1, 9))

    def _hasten(self) -> c.Command:
        return c.DeliverScheduled(self._queue(), limit=self.chance.randint(1, 9))

    def _purge(self) -> c.Command:
        return c.PurgeQueue(self._queue(), limit=self.chance.randint(1, 9))

    def _pause(self) -> c.Command:
        kinds = (c.PauseQueue, c.ResumeQueue, c.ResumeQueue)
        return self.chance.choice(kinds)(self._queue())

    def _pause_address(self) -> c.Command:
        kinds = (c.PauseAddress, c.ResumeAddress, c.ResumeAddress)
        return self.chance.choice(kinds)(self.chance.choice((*MIXED, TOPIC)))

    def _recreate(self) -> c.Command:
        name = self.chance.choice((LATE, DEAD, SPARE))
        address = f"{PREFIX}two" if name == LATE else name
        return create_queue(name, address, ring_size=self.chance.choice((-1, 4)))

    def _delete(self) -> c.Command:
        name = self.chance.choice((LATE, DEAD, SPARE))
        return c.DeleteQueue(name, force=self.chance.random() < 0.7)

    def _spare(self) -> c.Command:
        if self.chance.random() < 0.5:
            return c.CreateAddress(SPARE)
        return c.DeleteAddress(self.chance.choice((SPARE, LATE)), force=True)

    def _routing_types(self) -> c.Command:
        types = self.chance.choice(((ANYCAST,), (ANYCAST, MULTICAST)))
        return c.UpdateAddress(self.chance.choice((*MIXED, SPARE)), types)

    def _divert(self) -> c.Command:
        chance = self.chance
        target = chance.choice((f"{PREFIX}two", f"{PREFIX}three", TOPIC, DEAD))
        source = chance.choice((f"{PREFIX}one", f"{PREFIX}one", TOPIC, DEAD))
        definition = DivertDefinition(
            name=chance.choice(("d", "e")), address=source,
            forwarding_addresses=(target,) if target != source else (f"{PREFIX}two",),
            exclusive=chance.random() < 0.4, filter=chance.choice(("", "", "k = '2'")),
            routing_type=chance.choice(("strip", "pass", ANYCAST)),
        )  # fmt: skip
        return c.CreateDivert(definition, replaces=True)

    def _undivert(self) -> c.Command:
        return c.DeleteDivert(self.chance.choice(("d", "e")))

    def _reset_groups(self) -> c.Command:
        return c.ResetGroups(self.chance.choice(list(MIXED)), self.chance.choice(("", "g1")))

    def _forget_ids(self) -> c.Command:
        return c.ClearDuplicateIds(self.chance.choice(list(MIXED)))

    def _forget_retained(self) -> c.Command:
        return c.ForgetRetained(TOPIC)

    def _expire_transactions(self) -> c.Command:
        return c.ExpireTransactions(self.chance.choice((100_000, 5_000_000)))


assert all(is_mixed(name) for name in QUEUES)
