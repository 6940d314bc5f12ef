"""The facts that clients know at an event of the journal: the entries that exist, and their
delivery counts.

Read from rows and details with the table of lives (`engine.facts.kinds`), never with `apply`, so
that a mistake there is seen. A sample is kept, the newest entries and those that left last, so
memory does not grow with the journal. Must never know how a state is kept.
"""

import random
from collections import OrderedDict
from typing import Final, NamedTuple, cast

from daybook.engine.facts import details, events
from daybook.engine.facts.events import DELIVERY_COUNT, FLAGS, KIND, MESSAGE, PERSISTENT, QUEUE, Row
from daybook.engine.facts.kinds import ENTERING, LEAVING, NAMING, OF_ENTRIES, TAKING, changing
from daybook.engine.facts.life import BEGINS, BROKER, ENDS
from daybook.engine.facts.life import QUEUE as QUEUE_THING
from daybook.engine.queues.entry import Entry
from daybook.engine.state.state import State
from daybook.history.search import Clause, Search
from daybook.journal.blocks.block import Block

KEPT_MAX: Final = 20_000
"""The number of remembered entries, and of those that left."""
CHECKED_MAX: Final = 200
"""How many of each are looked for in a state."""
SHOWN_MAX: Final = 5

Key = tuple[int, int]
"""A queue and a message."""


class Broken(NamedTuple):
    """A promise that is broken, and how."""

    promise: str
    what: str


class Told(NamedTuple):
    """How often a message was delivered, and whether a consumer has it now."""

    attempts: int
    is_taken: bool


class Reckoning:
    """Entries of persistent messages in durable queues, as of the last block followed."""

    def __init__(self, state: State) -> None:
        """Begin with the queues of a state, whose entries are not looked at."""
        self._durable = {queue.id for queue in state.queues.values() if queue.definition.durable}
        self.there: Final[OrderedDict[Key, Told]] = OrderedDict()
        self._gone: Final[OrderedDict[Key, None]] = OrderedDict()

    def follow(self, block: Block) -> None:
        """Take in the events of a block."""
        for event in _WANTED.events_in(block):
            self.take(event.lsn, event.row, event.detail)

    def take(self, lsn: int, row: Row, detail: bytes) -> None:
        """Take in an event."""
        kind = row[KIND]
        if kind in OF_ENTRIES:
            self._move(lsn, row, detail)
        elif kind in NAMING:
            self._learn(row, detail)
        elif kind in _STARTS:
            self._return_all()
        elif kind in _READ:
            self._forget(row[QUEUE])
        while len(self.there) > KEPT_MAX:
            self.there.popitem(last=False)
        while len(self._gone) > KEPT_MAX:
            self._gone.popitem(last=False)

    def _move(self, lsn: int, row: Row, detail: bytes) -> None:
        kind = row[KIND]
        if not row[FLAGS] & PERSISTENT:
            return
        if kind in ENTERING:
            for queue in _queues(row, detail):
                if queue in self._durable:
                    key = queue, row[MESSAGE] or lsn
                    self._gone.pop(key, None)
                    self.there[key] = Told(row[DELIVERY_COUNT], False)
            return
        key = row[QUEUE], row[MESSAGE]
        if kind in LEAVING:
            if self.there.pop(key, None) is not None:
                self._gone[key] = None
        elif key in self.there:
            self.there[key] = Told(row[DELIVERY_COUNT], kind in TAKING)

    def _learn(self, row: Row, detail: bytes) -> None:
        decoded = events.decode_detail(row[KIND], detail)
        if isinstance(decoded, details.QueueDetail):
            if decoded.durable:
                self._durable.add(row[QUEUE])
            else:
                self._durable.discard(row[QUEUE])

    def _return_all(self) -> None:
        for key, told in self.there.items():
            if told.is_taken:
                self.there[key] = Told(told.attempts, False)

    def _forget(self, queue: int) -> None:
        self._durable.discard(queue)
        for kept in (self.there, self._gone):
            for key in [key for key in kept if key[0] == queue]:
                del kept[key]

    def contradictions(self, state: State, chance: random.Random) -> list[Broken]:
        """Return the contradictions between a state and a sample of entries."""
        found: list[Broken] = []
        for queue, message in _sample(list(self.there), chance):
            told = self.there[queue, message]
            entry = _entry(state, queue, message)
            what = f"message {message} in queue #{queue}"
            if entry is None:
                found.append(Broken("P1", f"{what} is lost: it was routed and never left"))
            elif entry.delivery_count != told.attempts:
                found.append(
                    Broken(
                        "P5",
                        f"{what} has delivery count {entry.delivery_count}, and its events say "
                        f"{told.attempts}",
                    )
                )
            elif told.is_taken and entry.consumer is None:
                found.append(Broken("P5", f"{what} was delivered, and no consumer has it"))
        for queue, message in _sample(list(self._gone), chance):
            if _entry(state, queue, message) is not None:
                found.append(
                    Broken("P1", f"message {message} is in queue #{queue} again: it had left")
                )
        return _few(found)

    def unflagged(self, state: State, chance: random.Random) -> list[Broken]:
        """Return which deliveries a started broker would repeat without saying so."""
        taken = [key for key, told in self.there.items() if told.is_taken]
        found = []
        for queue, message in _sample(taken, chance):
            entry = _entry(state, queue, message)
            if entry is not None and not (entry.redelivered or entry.delivery_count):
                found.append(
                    Broken(
                        "P5",
                        f"message {message} in queue #{queue} was delivered before the crash, and "
                        "would be delivered again without the flag",
                    )
                )
        return _few(found)


_STARTS: Final = changing({BROKER}, {BEGINS})
_READ: Final = OF_ENTRIES | NAMING | _STARTS | changing({QUEUE_THING}, {ENDS})
_WANTED: Final = Search(Clause(_READ))


def _few(found: list[Broken]) -> list[Broken]:
    more = len(found) - SHOWN_MAX
    rest = [Broken(found[-1].promise, f"and {more} more like that")] if more > 0 else []
    return found[:SHOWN_MAX] + rest


def _queues(row: Row, detail: bytes) -> tuple[int, ...]:
    if row[QUEUE] or row[KIND] != events.ROUTED:
        return (row[QUEUE],)
    return cast(details.RoutedDetail, events.decode_detail(row[KIND], detail)).queues


def _sample(keys: list[Key], chance: random.Random) -> list[Key]:
    return chance.sample(keys, min(len(keys), CHECKED_MAX))


def _entry(state: State, queue: int, message: int) -> Entry | None:
    known = state.queues.get(queue)
    return known.find(message) if known is not None else None
