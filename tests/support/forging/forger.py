"""A forger: changes real journals in every place where a journal can be changed, one at a time.

A *cell* is a kind of event with one thing that can be wrong with it: a column, a bit of the flags,
a field of the detail, headers, body; or the event is gone, is there twice, or stands behind the one
that followed it; or the message was dropped instead, or went to another consumer. The forger
repairs what it can: ids follow their events, and `write_history` seals blocks and chain again.
`tests.support.forging.forgeries` says what an audit finds.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

import msgspec

from daybook.engine import commands as c
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import CONNECTION_CLOSE, MULTICAST, SESSION_END, Detail
from daybook.engine.facts.events import EVENT_TYPES, KIND, EventType, Row
from tests.support import histories
from tests.support.forging.faults import changed
from tests.support.scenario import RESTART, Step, play
from tests.support.world import SECOND, Event
from tests.support.worlds import mixture, shortages
from tests.support.worlds.auditing import DoorWorld


class Cell(NamedTuple):
    """A kind of event, and what of it is forged."""

    kind: str
    field: str


class Story(NamedTuple):
    """A real journal, and behind how many of its events the blocks end."""

    journal: list[Event]
    ends: list[int]


class Forgery(NamedTuple):
    """A forged journal, the event in which it differs first, and what was done."""

    cell: Cell
    history: list[Event]
    ends: list[int]
    lsn: int
    text: str


FLAGS: Final = {
    "persistent": events.PERSISTENT,
    "omitted": events.BODY_OMITTED,
    "large": events.LARGE,
    "redelivered": events.REDELIVERED,
    "format": 16,
    "grouped": events.GROUPED,
}
"""The bits of the flags, by name; for the format of headers, its lowest one."""
ORDER: Final = ("missing", "twice", "swapped")
"""The forgeries of an event as a whole."""
DROPPED: Final = "dropped"
"""The message is dropped instead, and whatever happened to it did not."""
ANOTHER: Final = "other consumer"
"""The delivery, and all that followed, is of another consumer of the queue."""
TAKEN: Final = ("Delivered",)
ALONE: Final = {
    "Delivered", "Acknowledged", "Returned", "Scheduled", "Due", "Removed", "Expired", "Shown",
    "Seen",
}  # fmt: skip
"""Kinds of events about a message that create nothing else."""
ENTERED: Final = ("Routed",)
"""The events of messages that were taken."""
BLOCKS: Final = Cell("", "blocks swapped")
WITH_HEADERS: Final = ("Routed", "Carried", "Forwarded")
WITH_BODY: Final = (*WITH_HEADERS, "ChunkReceived")
ID_COLUMNS: Final = (events.MESSAGE, events.CONSUMER, events.CONNECTION, events.RELATED)
LSNS_IN_DETAILS: Final = ("first", "after", "until", "owner", "chunks", "receivers")
"""The fields of details that may be LSNs."""


def cells() -> list[Cell]:
    """Return all cells, from the table of events."""
    found = [Cell(each.name, field) for each in EVENT_TYPES for field in _fields(each)]
    return [*found, BLOCKS]


def _fields(event: EventType) -> Iterator[str]:
    for column in event.columns:
        if column == "flags":
            yield from (f"flags.{name}" for name in FLAGS)
        else:
            yield column
    yield "time"
    if event.detail is not None:
        yield from (f"detail.{name}" for name in event.detail.__struct_fields__)
    if event.name in WITH_HEADERS:
        yield "headers"
    if event.name in WITH_BODY:
        yield "body"
    if event.name in ENTERED:
        yield DROPPED
    if event.name in TAKEN:
        yield ANOTHER
    yield from ORDER


# ---- real journals


def stories(count: int, seed: int = 0) -> list[Story]:
    """Return journals in which every kind of event occurs, if they are some dozens."""
    makers = (_mixture, _scenario, _mixture, _history, _short)
    return [makers[each % len(makers)](seed + each) for each in range(count)]


def _mixture(seed: int) -> Story:
    """Queues of every kind, with what the table of events has beside them at the end."""
    world = DoorWorld(journal_direct=("decisions", "content")[seed % 2])
    kinds, story = mixture.draw(seed, 60)
    player = mixture.Player(world, kinds)
    player.play(story)
    for name in mixture.QUEUES:
        world.handle(c.ResetGroups(name))
    _expire(world, seed)
    world.turn()
    return _with_rare_ones(Story(world.journal, world.ends))


def _expire(world: DoorWorld, seed: int) -> None:
    """A subscription is left, then its session or its connection ends, then its time is over."""
    connection = world.connect()
    consumer = world.attach(
        connection, "news", routing_type=MULTICAST, durable_name="mine", session=1,
        expiry_policy=(SESSION_END, CONNECTION_CLOSE)[seed % 2], expiry_ms=1000,
    )  # fmt: skip
    world.handle(c.Detach(consumer))
    world.handle(c.EndOwner(connection, session=1))
    world.handle(c.CloseConnection(connection, reasons.CLOSED))
    world.sleep(seed % 3)
    world.handle(c.DeleteUnused())


def _scenario(seed: int) -> Story:
    draw = random.Random(seed)
    world = DoorWorld()
    story: list[Step] = [
        (
            draw.randint(0, RESTART - (seed % 3 > 0)),
            draw.randint(0, 20),
            draw.randint(0, 20),
            draw.randint(0, 20),
        )
        for _ in range(130)
    ]
    play(world, story)
    world.turn()
    return Story(world.journal, world.ends)


def _history(seed: int) -> Story:
    world = DoorWorld()
    return Story(histories.played(seed, 50, world), world.ends)


def _short(seed: int) -> Story:
    world = shortages.short(seed)
    return Story(world.journal, world.ends)


def _with_rare_ones(story: Story) -> Story:
    """Add a fork, and an event that a salvage could not read, with the start behind them."""
    journal, last = list(story.journal), story.journal[-1]
    following: tuple[tuple[Row, Detail | None], ...] = (
        (
            events.row(events.FORKED, related=last.lsn),
            details.ForkedDetail(data_id="ab" * 16, directory="/data", block_hash="cd" * 32),
        ),
        (events.row(events.LOST, reason=reasons.SALVAGED), details.LostDetail(source="ab" * 16)),
        (events.row(events.BROKER_STARTED), details.BrokerStartedDetail(version="test")),
    )
    for row, detail in following:
        stamped = changed(row, time=last.row[events.TIME])
        encoded = events.encode_detail(detail) if detail is not None else b""
        journal.append(Event(len(journal) + 1, stamped, encoded, b"", b""))
    return Story(journal, [*story.ends, len(journal)])


# ---- forgeries


class Forger:
    """Forges journals; equal for equal seeds."""

    def __init__(self, among: Sequence[Story], seed: int = 0) -> None:
        self.stories: Final = among
        self._random: Final = random.Random(seed)
        self._places: dict[str, list[tuple[Story, Event]]] = {}
        self._values: dict[Cell, list[Any]] = {}
        for story in among:
            for event in story.journal:
                self._places.setdefault(event.name, []).append((story, event))

    def forge(self, cell: Cell, count: int) -> Iterator[Forgery]:
        """Yield some forgeries of a cell; fewer if there are no more places for them."""
        if cell == BLOCKS:
            yield from self._swap_blocks(count)
            return
        places = self._places.get(cell.kind, [])
        for story, event in self._random.sample(places, min(len(places), 8 * count)):
            forgery = self._forge(cell, story, event)
            if forgery is not None:
                yield forgery
                count -= 1
                if not count:
                    return

    def _forge(self, cell: Cell, story: Story, event: Event) -> Forgery | None:
        if cell.field in ORDER:
            return _reordered(cell, story, event)
        if cell.field == DROPPED:
            return self._dropped(cell, story, event)
        if cell.field == ANOTHER:
            return self._given(cell, story, event)
        forged = self._changed(cell, event)
        if forged is None or forged == event:
            return None
        history = [forged if each is event else each for each in story.journal]
        text = f"{_shown(event, cell.field)} -> {_shown(forged, cell.field)}"
        return Forgery(cell, history, story.ends, event.lsn, text)

    def _dropped(self, cell: Cell, story: Story, event: Event) -> Forgery | None:
        """Drop a message instead, for some reason, with what a broker would say of it."""
        row = event.row
        of_it = [each for each in story.journal if each.row[events.MESSAGE] == event.lsn]
        others = [each.name for each in of_it if each is not event]
        decoded = cast(Any, event.decoded) if event.detail else details.RoutedDetail()
        is_last = not any(each.row[events.RELATED] == event.lsn for each in story.journal)
        if not (is_last and set(others) <= ALONE and row[events.REASON] == reasons.SENT):
            return None
        reason = self._random.choice(events.BY_NAME["Dropped"].reasons)
        forged = event._replace(
            row=events.row(
                events.DROPPED, reason=reason, address=row[events.ADDRESS],
                priority=row[events.PRIORITY], connection=row[events.CONNECTION],
                flags=row[events.FLAGS], time=row[events.TIME],
            ),
            detail=events.encode_detail(
                details.DroppedDetail(
                    transaction=decoded.transaction,
                    basis=details.Basis(
                        text="no room" if reason == reasons.DISK_FULL else "",
                        body_bytes=len(event.body), expires=getattr(decoded, "expires", 0),
                    ),
                )
            ),
            body=b"",
        )  # fmt: skip
        gone = {each.lsn for each in of_it if each is not event}
        order = [at for at in range(len(story.journal)) if at + 1 not in gone]
        journal = [forged if each is event else each for each in story.journal]
        ends = [end - sum(lsn <= end for lsn in gone) for end in story.ends]
        lsn = event.lsn - sum(lsn <= event.lsn for lsn in gone)
        text = f"is dropped: {reasons.REASONS[reason][0]}"
        return Forgery(cell, in_order(journal, order), ends, lsn, text)

    def _given(self, cell: Cell, story: Story, event: Event) -> Forgery | None:
        """Give a message to another consumer of its queue, until that delivery ends."""
        consumer, queue = event.row[events.CONSUMER], event.row[events.QUEUE]
        there: dict[int, int] = {}
        for each in story.journal[: event.lsn]:
            if each.name == "BrokerStarted":
                there.clear()
            elif each.name == "ConsumerAttached" and each.row[events.QUEUE] == queue:
                if not each.decoded.browses:
                    there[each.lsn] = each.row[events.CONNECTION]
            elif each.name == "ConsumerDetached":
                there.pop(each.row[events.CONSUMER], None)
        there.pop(consumer, None)
        if not there:
            return None
        other = self._random.choice(sorted(there))
        history, is_over = list(story.journal), False
        for at in range(event.lsn - 1, len(history)):
            each = history[at]
            is_own = each.row[events.MESSAGE] == event.row[events.MESSAGE]
            if is_over or not (is_own and each.row[events.CONSUMER] == consumer):
                continue
            row = changed(each.row, consumer=other, connection=there[other])
            history[at] = each._replace(row=row)
            is_over = each is not event
        text = f"is of consumer {other}, not {consumer}"
        return Forgery(cell, history, story.ends, event.lsn, text)

    def _changed(self, cell: Cell, event: Event) -> Event | None:
        name = cell.field
        if name in ("headers", "body"):
            value = self._other(cell, bytes(getattr(event, name)))
            if event.row[events.FLAGS] & events.BODY_OMITTED:
                return None
            return event._replace(**{name: value})
        if name.startswith("detail."):
            return self._with_detail(cell, event, name.removeprefix("detail."))
        if name.startswith("flags."):
            bit = FLAGS[name.removeprefix("flags.")]
            return event._replace(row=changed(event.row, flags=event.row[events.FLAGS] ^ bit))
        value = self._of_column(cell, event, name)
        return event._replace(row=changed(event.row, **{name: value}))

    def _of_column(self, cell: Cell, event: Event, name: str) -> int:
        at = [column.name for column in events.COLUMNS].index(name)
        value, draw = event.row[at], self._random
        if name == "time":
            return value + draw.choice((-SECOND // 2, SECOND // 2, 7200 * SECOND, -7200 * SECOND))
        if name == "priority":
            return draw.choice([each for each in range(10) if each != value])
        if name == "delivery_count":
            return max(0, value + draw.choice((-1, 1, 2)))
        if name == "reason":
            possible = events.BY_NUMBER[event.row[KIND]].reasons or tuple(self._pool(cell))
            others = [each for each in possible if each != value]
            return draw.choice(others or [value + 1])
        return int(self._other(cell, value))

    def _with_detail(self, cell: Cell, event: Event, field: str) -> Event:
        decoded = event.decoded
        value = self._other(cell, getattr(decoded, field))
        detail = events.encode_detail(msgspec.structs.replace(decoded, **{field: value}))
        return event._replace(detail=detail)

    def _pool(self, cell: Cell) -> list[Any]:
        """Return the values that real events have in a cell."""
        if cell not in self._values:
            found: dict[str, Any] = {}
            for _, event in self._places[cell.kind]:
                value = _value(event, cell.field)
                found.setdefault(repr(value), value)
            self._values[cell] = list(found.values())
        return self._values[cell]

    def _other(self, cell: Cell, value: Any) -> Any:
        """Return another value for a cell, mostly one that some real event has."""
        draw = self._random
        others = [each for each in self._pool(cell) if each != value]
        if others and draw.random() < 0.8:
            return draw.choice(others)
        if isinstance(value, bool):
            return not value
        if isinstance(value, int | float):
            return value + 1
        if isinstance(value, str):
            return value + "x"
        if isinstance(value, bytes):
            return value + b"x:y\n"
        if isinstance(value, tuple):
            return value[1:] if value else draw.choice(others) if others else ()
        if isinstance(value, dict):
            return dict(list(value.items())[1:])
        return draw.choice(others) if others else value

    def _swap_blocks(self, count: int) -> Iterator[Forgery]:
        for _ in range(count):
            story = self._random.choice(self.stories)
            ends = [end for end in story.ends if end < len(story.journal)]
            if len(ends) < 3:
                continue
            at = self._random.randrange(len(ends) - 2)
            first, middle, last = ends[at : at + 3]
            order = [*range(first), *range(middle, last), *range(first, middle)]
            order += range(last, len(story.journal))
            history = in_order(story.journal, order)
            cut = first + last - middle
            new_ends = sorted({*story.ends, cut} - {middle} | {cut})
            text = f"events {first + 1} to {middle} behind those up to {last}"
            yield Forgery(BLOCKS, history, new_ends, first + 1, text)


def _value(event: Event, field: str) -> Any:
    if field in ("headers", "body"):
        return getattr(event, field)
    if field.startswith("detail."):
        return getattr(event.decoded, field.removeprefix("detail."))
    if field.startswith("flags."):
        return bool(event.row[events.FLAGS] & FLAGS[field.removeprefix("flags.")])
    return event.row[[column.name for column in events.COLUMNS].index(field)]


def _shown(event: Event, field: str) -> str:
    text = repr(_value(event, field))
    return text if len(text) < 100 else text[:97] + "..."


# ---- events as a whole

UP_TO_HERE = (events.CHECKPOINT, events.SIGNED)
"""Kinds whose `related` is not an event, but the position of the journal."""


def _reordered(cell: Cell, story: Story, event: Event) -> Forgery | None:
    journal, at = story.journal, event.lsn - 1
    order = list(range(len(journal)))
    ends = story.ends
    if cell.field == "missing":
        del order[at]
        ends = [end - (end > at) for end in ends]
        text = "is gone"
    elif cell.field == "twice":
        order.insert(at + 1, at)
        ends = [end + (end > at) for end in ends]
        text = "is there twice"
    else:
        if event.lsn in ends or event.lsn == len(journal):
            return None
        order[at], order[at + 1] = order[at + 1], order[at]
        text = f"is behind {journal[at + 1].name}"
    return Forgery(cell, in_order(journal, order), ends, event.lsn, text)


def in_order(journal: Sequence[Event], order: Sequence[int]) -> list[Event]:
    """Return events in another order, with ids that follow them; one that is there twice keeps the
    id of its first place."""
    places: dict[int, int] = {}
    for new, old in enumerate(order, 1):
        places.setdefault(old + 1, new)
    length = len(journal)

    def moved(lsn: int) -> int:
        # One that is gone: nobody has its id.
        return places.get(lsn, length + 1000) if 0 < lsn <= length else lsn

    found = []
    times = [journal[each].row[events.TIME] for each in order]
    for new, old in enumerate(order, 1):
        event = journal[old]
        row = list(event.row)
        for column in ID_COLUMNS:
            row[column] = moved(row[column])
        if row[KIND] in UP_TO_HERE:
            row[events.RELATED] = new - (event.lsn - event.row[events.RELATED])
        # A forger that reorders events also changes their times.
        row[events.TIME] = max(times[max(0, new - 2) : new])
        detail = _moved_detail(event, moved)
        found.append(event._replace(lsn=new, row=cast("Row", tuple(row)), detail=detail))
    return found


def _moved_detail(event: Event, moved: Any) -> bytes:
    if not event.detail or event.row[KIND] not in events.BY_NUMBER:
        return event.detail
    decoded = event.decoded
    values: dict[str, Any] = {}
    for name in LSNS_IN_DETAILS:
        value = getattr(decoded, name, None)
        if isinstance(value, tuple) and value and name == "chunks":
            values[name] = events.chunk_steps(tuple(map(moved, events.chunk_lsns(decoded))))
        elif isinstance(value, tuple):
            values[name] = tuple(map(moved, value))
        elif isinstance(value, int) and not isinstance(value, bool) and value > 0:
            values[name] = moved(value)
    if not values:
        return event.detail
    return events.encode_detail(msgspec.structs.replace(decoded, **values))
