"""Clients that use everything: several destinations, wildcards, browsers, temporaries, retaining.

Their features in a run are drawn in `tests.simulation.swarm`. The names begin with `kinds.PREFIX`.
"""

import random
from typing import Any

from tests.simulation.peers.clients import EXPECTED_ERRORS, Client, Headers
from tests.simulation.peers.kinds import PREFIX
from tests.simulation.peers.wire import Frame

TOPICS = tuple(f"/topic/{PREFIX}t.{name}" for name in ("a", "b"))
PLACES = tuple(f"/queue/{PREFIX}{name}" for name in ("one", "two", "three"))
WILD_TOPICS = (f"/topic/{PREFIX}t.*", f"/topic/{PREFIX}#", f"/topic/{PREFIX}t.{{[ab]}}")
WILD_QUEUES = (f"/queue/{PREFIX}*", f"/queue/{PREFIX}**", f"/queue/{PREFIX}t*")
SELECTORS = ("k = '1'", "k <> '1'", "k IS NULL", "_AMQ_LVQ_NAME = '0' OR k IN ('2', '3')")
MORE_ERRORS = (
    "is missing there", "could not be checked within", "it was open for more than",
    "ended before the commit",
    "the login was refused", "closed by an administrator", "is full: its",
    "max-connections", "max-queues", "belongs to another connection",
)  # fmt: skip
"""Words in an ERROR that a client may get because of what others do."""
OTHER_HOST = "other"
"""The second virtual host, which has only names that begin with PREFIX."""


class SwarmClient(Client):
    """A client of a run in which some features are in use."""

    features: frozenset[str] = frozenset()
    beats = 0.3
    rejects = 0.4
    expected_errors: tuple[str, ...] = (*EXPECTED_ERRORS, *MORE_ERRORS)

    def __init__(self, *arguments: Any, features: frozenset[str], **more: Any) -> None:
        self.features = features
        self.session = ""
        self._temporaries: list[str] = []
        super().__init__(*arguments, **more)

    def connect(self) -> None:
        """CONNECT, perhaps to the other virtual host."""
        is_other = "hosts" in self.features and self.chance.random() < 0.3
        if is_other and self.version != "1.0":
            self.host = OTHER_HOST
            # A message on one virtual host is not a duplicate of one on the other.
            self._resends = False
            self._weights[self.resend] = 0
        super().connect()

    @property
    def _is_here(self) -> bool:
        return self.host != OTHER_HOST

    def _draws(self, feature: str, likely: float) -> bool:
        return feature in self.features and self.chance.random() < likely

    # ---- sending

    def send(self) -> None:
        """SEND to the places of all runs, or to others."""
        if self._is_here and self.chance.random() < 0.35:
            super().send()
            return
        destination = self._place()
        more: list[tuple[str, str]] = []
        if self._draws("several destinations", 0.2):
            others = [self._place() for _ in range(self.chance.randint(1, 3))]
            destination = ",".join(dict.fromkeys((destination, *others)))
        elif destination in TOPICS and self._draws("retained", 0.4):
            more.append(("retain", self.chance.choice(("set", "set", "true", "remove"))))
        if self._draws("times to live", 0.3):
            more.append(("ttl", f"{self.chance.choice((1, 300, 3_000, 60_000))}"))
        if self._draws("outcomes", 0.3):
            more.append(("receipt-outcome", "true"))
        if self._draws("reply-to", 0.1) and self._temporaries:
            more.append(("reply-to", self.chance.choice(self._temporaries)))
        self._send_to(destination, more)

    def _extras(self, more: Headers) -> Headers:
        extras = super()._extras(more)
        if "retain" not in dict(more):
            return extras
        return [each for each in extras if each[0] != "AMQ_SCHEDULED_DELAY"]

    def _place(self) -> str:
        chance = self.chance
        if self._draws("temporaries", 0.15):
            known = self.ledger.temporaries[-20:] if self._is_here else []
            return chance.choice([*known, "/temp-queue/x", "/temp-topic/y"])
        if self._draws("topics", 0.4):
            return chance.choice(TOPICS)
        return chance.choice(PLACES)

    # ---- subscribing

    def subscribe(self) -> None:
        """SUBSCRIBE to the places of all runs, or to others."""
        if self.version == "1.0" or (self._is_here and self.chance.random() < 0.2):
            # In 1.0, MESSAGE does not name the subscription, so one to one queue is all.
            if self._is_here:
                super().subscribe()
            return
        if len(self.subscriptions) >= 3:
            return
        chance = self.chance
        mode = chance.choice(("auto", "client", "client-individual", "client-individual"))
        kinds = [self._one_queue] * 4
        for feature, kind in (
            ("topics", self._topic), ("topics", self._wild_topic), ("wildcards", self._wild_queues),
            ("composite", self._several), ("temporaries", self._temporary),
            ("browsers", self._browser), ("shared", self._shared),
        ):  # fmt: skip
            kinds += [kind] * (feature in self.features)
        chance.choice(kinds)(mode)

    def _choices(self) -> list[tuple[str, str]]:
        """Draw what subscriptions of all sorts may ask for."""
        more = []
        if self._draws("selectors", 0.3):
            more.append(("selector", self.chance.choice(SELECTORS)))
        if self._draws("consumer priorities", 0.3):
            more.append(("priority", f"{self.chance.choice((-3, 1, 7))}"))
        if self._draws("exclusive", 0.15):
            more.append(("exclusive", "true"))
        if self._draws("sequences", 0.2):
            more.append(("include-seq", "seq"))
        return more

    def _history(self) -> list[tuple[str, str]]:
        if not self._draws("history", 0.4):
            return []
        since = self._now() // 1000 - self.chance.choice((100, 5_000))
        headers = (("retroactive", "false"), ("retroactive-since", f"{since}"))
        return [self.chance.choice(headers)]

    def _one_queue(self, mode: str) -> None:
        place = self.chance.choice(PLACES)
        more = self._choices()
        if self._draws("sequences", 0.2):
            more.append(("from-seq", f"{self.chance.choice((-1, 0, self.ledger.messages))}"))
        name = place.removeprefix("/queue/")
        queue = name if self._is_here else f"{OTHER_HOST}::{name}"
        self._subscribe_to(place, queue, mode, durable=False, more=more)

    def _topic(self, mode: str) -> None:
        more = [*self._choices(), *self._history()]
        if self._draws("no-local", 0.4):
            more.append(("no-local", "true"))
        self._subscribe_to(self.chance.choice(TOPICS), "", mode, durable=False, more=more)

    def _wild_topic(self, mode: str) -> None:
        more = [*self._choices(), *self._history()]
        self._subscribe_to(self.chance.choice(WILD_TOPICS), "", mode, durable=False, more=more)

    def _wild_queues(self, mode: str) -> None:
        # One message may be in two of the queues, which `ack:client` could not tell apart.
        mode = mode if mode == "auto" else "client-individual"
        place = self.chance.choice(WILD_QUEUES)
        self._subscribe_vaguely(place, mode, self._choices())

    def _several(self, mode: str) -> None:
        parts = self.chance.sample([*PLACES, *TOPICS, *WILD_TOPICS], self.chance.randint(2, 4))
        mode = mode if mode == "auto" else "client-individual"
        self._subscribe_vaguely(",".join(parts), mode, self._choices())

    def _temporary(self, mode: str) -> None:
        place = self.chance.choice(("/temp-queue/x", "/temp-topic/y"))
        self._subscribe_to(place, "", mode, durable=False)
        self._temporaries.append(place)
        if self._is_here:
            kind, name = place.removeprefix("/temp-").split("/")
            self.ledger.temporaries.append(f"/{kind}/temp.default.{self.session}.{name}")

    def _browser(self, mode: str) -> None:
        mode = mode if mode == "auto" else "client-individual"
        more = [("browser", "true")]
        if self.chance.random() < 0.4:
            more.append(("browser-end", "false"))
        if self._draws("sequences", 0.5):
            more.append(("from-seq", f"{self.chance.choice((-1, 0, self.ledger.messages))}"))
        if self._draws("selectors", 0.3):
            more.append(("selector", self.chance.choice(SELECTORS)))
        is_wild = "from-seq" not in dict(more) and self._draws("wildcards", 0.2)
        place = self.chance.choice(WILD_QUEUES if is_wild else PLACES)
        self._subscribe_vaguely(place, mode, more)

    def _shared(self, mode: str) -> None:
        """A durable subscription that all clients know by its id."""
        if self._had_durable:
            return
        self._had_durable = True
        topic = self.chance.choice((TOPICS[0], TOPICS[0], *TOPICS, WILD_TOPICS[0]))
        home, self.home = self.home, 100 + self.chance.randrange(2)
        record = self._subscribe_to(
            topic, "", mode, durable=True, more=[*self._history(), *self._choices()]
        )
        self.home = home
        record.is_vague = True

    def _subscribe_vaguely(self, place: str, mode: str, more: list[tuple[str, str]]) -> None:
        record = self._subscribe_to(place, "", mode, durable=False, more=more)
        record.is_vague = True

    # ---- reading

    def _read(self, frame: Frame) -> None:
        if frame.command == "CONNECTED":
            self.session = frame.headers["session"]
        super()._read(frame)

    def _take(self, frame: Frame) -> None:
        if frame.headers.get("browser") != "end":
            super()._take(frame)


CLIENT_FEATURES = (
    "hosts", "several destinations", "retained", "times to live", "outcomes", "reply-to",
    "temporaries", "topics", "wildcards", "composite", "browsers", "shared", "selectors",
    "consumer priorities", "exclusive", "sequences", "history", "no-local",
)  # fmt: skip
"""The features that clients may use."""


def draw_features(chance: random.Random, features: tuple[str, ...]) -> frozenset[str]:
    """Draw the features of a run: about half of them, sometimes all, so that each is without each.

    A fault that needs two features shows where both are and others do not hide it.
    """
    likely = chance.choice((0.3, 0.5, 0.5, 0.7, 1.0))
    return frozenset(feature for feature in features if chance.random() < likely)
