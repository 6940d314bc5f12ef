"""Queues of all kinds in the simulation: drawn attributes, what is sent to them, what changes.

Their names begin with PREFIX. All chance is their own, so that the rest of a seed is what it would
be without.
"""

import random
from typing import Any

from daybook.engine.broker import Broker
from daybook.engine.commands import (
    ActOnMessages,
    Command,
    CreateDivert,
    DeleteQueue,
    DeliverScheduled,
    PurgeQueue,
    SetSettings,
    UpdateQueue,
)
from daybook.engine.facts.definitions import DivertDefinition
from daybook.engine.names.names import INTERNAL, TEMPORARY
from daybook.server.hub.hub import Hub
from tests.simulation.seeds import SWARM_FROM
from tests.support.topology import create_queue
from tests.support.worlds.mixture import FIXED, KINDS

PREFIX = "k."
MIXED = {f"{PREFIX}{name}": f"{PREFIX}{name}" for name in ("one", "two", "three")}
"""The queues, by name, with their address."""
LATE = f"{PREFIX}late"
"""A queue that administrators create and delete, on an address that may keep its history."""
SHARED = "dsub.d10"
"""The durable subscriptions that all clients of a swarm know."""
OTHERS = 2
MATCH = "k.#"
DURABLE = {"durable": True, "auto_delete": False, "max_consumers": -1}
"""Attributes that are left to other simulated queues, or would refuse clients."""
STAYS = {*FIXED, *DURABLE, "filter", "enabled", "non_destructive"}
"""What no administrator changes here. A consumer of a queue that is no longer non-destructive gets
again what it was only shown, with the same id: a client cannot tell which of the two it settles."""
SETTINGS: dict[str, tuple[Any, ...]] = {
    "redelivery-delay": (0, 50, 2_000),
    "redelivery-delay-multiplier": (1.0, 2.0),
    "expiry-address": ("", "expired"),
    "expiry-delay": (-1, -1, 3_000),
    "min-expiry-delay": (-1, 1_000),
    "max-expiry-delay": (-1, 10_000),
    "default-ring-size": (-1, -1, 2),
    "retroactive-message-count": (0, 5, 40),
}


def is_mixed(name: str) -> bool:
    """Whether a queue or address, of any virtual host, is one of these, or keeps their history, or
    is one that only `tests.simulation.peers.swarm_clients` use."""
    return name.rpartition("::")[2].startswith((PREFIX, INTERNAL, TEMPORARY, SHARED))


def is_mixed_place(destination: str) -> bool:
    """Whether a destination is one of these."""
    if destination.startswith("/temp-"):
        return True
    return is_mixed(destination.removeprefix("/queue/").removeprefix("/topic/"))


def with_mixed(queues: dict[str, str]) -> dict[str, str]:
    """Return these queues beside a few of others, so that most of what is sent goes to these."""
    return {**dict(list(queues.items())[:OTHERS]), **MIXED}


class MixedKinds:
    """The queues of a run."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(f"kinds {seed}")
        # Where many other features meet, a queue has few, or nothing would ever be delivered.
        self._most = 4 if seed >= SWARM_FROM else len(KINDS)
        self._attributes = {name: self._draw() for name in MIXED}
        self._is_diverted = chance.random() < 0.4
        self._settings = {
            key: chance.choice(SETTINGS[key])
            for key in ("redelivery-delay", "expiry-address", "retroactive-message-count")
        }
        self._restless = chance.choice((0.0, 0.002, 0.01))

    def _draw(self) -> dict[str, Any]:
        """Draw the attributes of a queue; many are what they are by default."""
        chosen = set(self.chance.sample(sorted(KINDS), self.chance.randint(1, self._most)))
        drawn = {
            key: self.chance.choice(values) if key in chosen else values[0]
            for key, values in KINDS.items()
        }
        wanted = self.chance.choice(("", "", "k = '1'"))
        return {**drawn, **DURABLE, "filter": wanted}

    def begin(self, hub: Hub, broker: Broker) -> None:
        """Create what does not exist yet; what exists stays as it was changed."""
        if MATCH not in broker.state.settings.live:
            hub.request(SetSettings(MATCH, self._settings))
        for name, address in MIXED.items():
            hub.request(create_queue(name, address, **self._attributes[name]))
        if self._is_diverted:
            definition = DivertDefinition(
                name="k", address=f"{PREFIX}one", forwarding_addresses=(f"{PREFIX}two",)
            )
            hub.request(CreateDivert(definition))

    def step(self, hub: Hub, broker: Broker) -> None:
        """Perhaps let an administrator do something."""
        if self.chance.random() < self._restless and not (hub.stopping or hub.failure):
            name = self.chance.choice(list(MIXED))
            if name in broker.state.queue_by_name:
                hub.request(self._deed(name))

    def _deed(self, name: str) -> Command:
        chance = self.chance
        roll = chance.random()
        if roll < 0.4:
            key = chance.choice(sorted(set(KINDS) - STAYS))
            return UpdateQueue(name, {key: chance.choice(KINDS[key])})  # type: ignore[dict-item]
        if roll < 0.7:
            key = chance.choice(sorted(SETTINGS))
            return SetSettings(MATCH, {key: chance.choice(SETTINGS[key])})
        if roll < 0.74:
            return DeleteQueue(LATE, force=True)
        if roll < 0.8:
            return DeliverScheduled(name, limit=chance.randint(1, 9))
        if roll < 0.9:
            other = chance.choice([each for each in MIXED if each != name])
            return ActOnMessages(name, "move", target=other, limit=chance.randint(1, 5))
        if roll < 0.94:
            return create_queue(LATE, f"{PREFIX}two", ring_size=chance.choice((-1, 4)))
        if roll < 0.97:
            return ActOnMessages(name, "priority", priority=chance.randrange(10), limit=3)
        return PurgeQueue(name)


def extra_headers(chance: random.Random) -> list[tuple[str, str]]:
    """Draw what messages to these queues say: group, key, and when they may be delivered."""
    headers = []
    if chance.random() < 0.4:
        headers.append(("JMSXGroupID", f"g{chance.randrange(4)}"))
        if chance.random() < 0.1:
            headers.append(("JMSXGroupSeq", "-1"))
    if chance.random() < 0.6:
        headers.append(("k", f"{chance.randrange(4)}"))
    if chance.random() < 0.7:
        headers.append(("_AMQ_LVQ_NAME", f"{chance.randrange(2)}"))
    if chance.random() < 0.2:
        headers.append(("AMQ_SCHEDULED_DELAY", f"{chance.choice((20, 500, 5_000))}"))
    return headers
