"""A round of retention as a sequence of steps, independent of how they are performed.

`Rounds.round` is a generator. Each step that it yields is an object that describes work; the driver
does it, stores the answer in the step's last attribute, and asks for the next step:

    for step in rounds.round(limits, archive):
        perform(step)

The order is essential (ADR 13): choose; carry forward; wait until that is indexed; only then give
messages in memory their new chunks, because until then the index brings messages into memory with
the old ones; wait until everything decided so far is indexed; prove that no content is left; ask
again for bodies in transfer; remove; record the removal. Steps may take any time, and anything may
happen in between. An error that `perform` raises ends the round: no segment has left then, and the
next round repeats the unfinished work.

The server performs the steps with processes and pauses, tests and the simulation perform them
directly. Must never know files, processes, clocks or the event loop.
"""

from collections.abc import Generator
from typing import Final, TypeAlias

from daybook.engine.administration.carried_content import relocate
from daybook.engine.administration.retention_commands import Carry, CarryChunk, NoteSegmentsRemoved
from daybook.engine.commands import Command
from daybook.engine.facts.details import CarriedDetail, RoutedDetail
from daybook.engine.facts.events import KIND, LARGE, chunk_lsns, decode_detail
from daybook.engine.messages.origins import journaled
from daybook.engine.queues.entry import Entry
from daybook.journal.retention import Choice, Limits, SealedSegment, choose
from daybook.paging.content.content import Event
from daybook.paging.retention.survey import Place, Weight

ROUND_SEGMENTS: Final = 16
"""How many segments leave in one round, so that each round frees space soon."""
SEEN_MAX: Final = 100_000
"""How many carried messages are remembered, for messages in several queues."""
MOSTLY_QUEUED: Final = (
    "most of the leaving messages are queued, and would have to be written again; consume it, "
    "purge it, "
    "or raise retention-max-bytes"
)
NO_CHUNK: Final = 1 << 63
"""The value of `Look.first_chunk` when no body is in transfer: above all LSNs."""


class Situation:
    """The state of the broker at one moment.

    `indexed_lsn` is the LSN of the index; `pinned_lsn` is the lowest event that a reader holds;
    `first_chunk` is the oldest chunk of a body in transfer (`Hub.first_chunk`), or NO_CHUNK.
    """

    def __init__(
        self, indexed_lsn: int = 0, pinned_lsn: int = NO_CHUNK, first_chunk: int = NO_CHUNK
    ) -> None:
        self.indexed_lsn: Final = indexed_lsn
        self.pinned_lsn: Final = pinned_lsn
        self.first_chunk: Final = first_chunk


class Look:
    """Return the content that must stay: see `Situation`."""

    def __init__(self) -> None:
        self.situation = Situation()


class ChooseSegments:
    """Choose with `journal.retention.choose`; `now` is the time passed to it.

    `first_lsn` is the first event of the live journal.
    """

    def __init__(self, limits: Limits, lowest_kept_lsn: int) -> None:
        self.limits: Final = limits
        self.lowest_kept_lsn: Final = lowest_kept_lsn
        self.now = 0
        self.first_lsn = 1
        self.choice = Choice()


class Weigh:
    """Return the answer of `Survey.weigh` for everything up to an event."""

    def __init__(self, last_lsn: int) -> None:
        self.last_lsn: Final = last_lsn
        self.weights: list[Weight] = []


class Find:
    """Return the next batch of `Survey.batches`, None after the last one.

    The same object is yielded again until `places` is None.
    """

    def __init__(self, last_lsn: int) -> None:
        self.last_lsn: Final = last_lsn
        self.places: list[Place] | None = []


class Where:
    """Ask the index which events have the content of these messages (`IndexStore.where`)."""

    def __init__(self, messages: list[int]) -> None:
        self.messages: Final = messages
        self.lsns: list[int] = []


class Read:
    """Read the event that has the content of a message (`ContentReader.event`)."""

    def __init__(self, lsn: int, message: int) -> None:
        self.lsn: Final = lsn
        self.message: Final = message
        self.event: Event | None = None


class ReadChunk:
    """Read the chunk of a body that follows another, 0: none (`ContentReader.chunks`)."""

    def __init__(self, lsn: int, before: int) -> None:
        self.lsn: Final = lsn
        self.before: Final = before
        self.body = b""


class Do:
    """Let the broker decide a command; `lsn` is its answer."""

    def __init__(self, command: Command) -> None:
        self.command: Final = command
        self.lsn = 0


class AwaitIndex:
    """Wait until everything that was decided before this step is indexed.

    `lsn` in the answer is the last of these events.
    """

    def __init__(self) -> None:
        self.lsn = 0


class FindResident:
    """Return the next slice of `engine.administration.carried_content.large_before`, None after the
    last one.

    The same object is yielded again until `entries` is None.
    """

    def __init__(self, last_lsn: int) -> None:
        self.last_lsn: Final = last_lsn
        self.entries: list[Entry] | None = []


class Retire:
    """Prove in one view of the index that no content is left, then archive, then advance the base.

    `paging.retention.retirement.retire` does all three; `left` is how many places were found, and 0
    is the proof.
    """

    def __init__(self, last_lsn: int) -> None:
        self.last_lsn: Final = last_lsn
        self.left = 0


class AskFirstChunk:
    """Ask again for the oldest chunk of a body in transfer: `lsn`, or NO_CHUNK."""

    def __init__(self) -> None:
        self.lsn = 0


class Remove:
    """Remove the segments that no reader holds; `removed` are their names.

    Close open files of these segments afterwards: they would keep their space on the disk.
    """

    def __init__(self, segments: tuple[SealedSegment, ...]) -> None:
        self.segments: Final = segments
        self.removed: tuple[str, ...] = ()


class Warn:
    """Report a sentence about a message to the operator."""

    def __init__(self, text: str, message: int) -> None:
        self.text: Final = text
        self.message: Final = message


Step: TypeAlias = (
    Look
    | ChooseSegments
    | Weigh
    | Find
    | Where
    | Read
    | ReadChunk
    | Do
    | AwaitIndex
    | FindResident
    | Retire
    | AskFirstChunk
    | Remove
    | Warn
)


Steps: TypeAlias = Generator[Step, None, None]


class Rounds:
    """Rounds of retention, one at a time, and the reports about them.

    `doing` is the current work of the round, and `held_back` why segments stay that exceed the
    limits; both are sentences, or empty. `is_mostly_queued` says that operators must do something
    about it. `clock_note` names a segment whose own events do not show its age. `more` says whether
    another round should follow at once.
    """

    def __init__(self) -> None:
        self.doing = ""
        self.held_back = ""
        self.is_mostly_queued = False
        self.clock_note = ""
        self.more = False
        self.carried_messages = 0
        self.removed_segments = 0
        self._lost: set[int] = set()

    def round(self, limits: Limits, archive: str) -> Steps:
        """Yield the steps of one round; `archive` is its URL for the event, empty for none."""
        self.more = False
        chosen = yield from self._choose(limits)
        removable = yield from self._worth_removing(chosen)
        if not removable:
            self.doing = ""
            return
        last_lsn = removable[-1].last_lsn
        self.doing = f"carrying forward queued messages up to event {last_lsn}"
        yield from self._carry(last_lsn, chosen.first_lsn)
        indexed_lsn = yield from self._await_index()
        yield from self._locate_chunks(last_lsn, indexed_lsn)
        # Events decided until now may refer to old chunks; events decided from here on cannot.
        yield from self._await_index()
        self.doing = f"archiving up to event {last_lsn}"
        retire = Retire(last_lsn)
        yield retire
        if retire.left:
            # It came back from a consumer, or was decided meanwhile: the next round carries it.
            self.more = True
        else:
            yield from self._remove(removable, archive)
        self.doing = ""

    # ---- choosing

    def _choose(self, limits: Limits) -> Generator[Step, None, ChooseSegments]:
        """Choose the segments that exceed limits and may leave."""
        look = Look()
        yield look
        seen = look.situation
        reasons = {
            seen.indexed_lsn + 1: "is not indexed yet",
            seen.pinned_lsn: "is being read",
            seen.first_chunk: "is part of a large message on its way",
        }
        kept = min(reasons)
        chosen = ChooseSegments(limits, kept)
        yield chosen
        doubtful = chosen.choice.doubtful if limits.max_age_ms is not None else None
        self.clock_note = (
            f"{doubtful.name} has events that are later than now; its age is that of the first "
            "segment behind it that has none"
            if doubtful is not None
            else ""
        )
        if not chosen.choice.removable:
            exceeding = chosen.choice.held_back
            self.held_back = f"{exceeding.name}: event {kept} {reasons[kept]}" if exceeding else ""
        return chosen

    def _worth_removing(
        self, chosen: ChooseSegments
    ) -> Generator[Step, None, tuple[SealedSegment, ...]]:
        """Return the segments that may leave without carrying the same messages again and again."""
        choice = chosen.choice
        if not choice.removable:
            return ()
        too_old = choose(
            choice.removable,
            Limits(chosen.limits.max_age_ms),
            live_bytes=0,
            now=chosen.now,
            lowest_kept_lsn=choice.last_lsn + 1,
        )
        self.is_mostly_queued = False
        if too_old.last_lsn == choice.last_lsn:
            self.held_back = ""
            return choice.removable[:ROUND_SEGMENTS]
        self.doing = "weighing queued messages"
        weigh = Weigh(choice.last_lsn)
        yield weigh
        removable = worth_removing(choice.removable, len(too_old.removable), weigh.weights)
        self.is_mostly_queued = not removable
        self.held_back = "" if removable else f"{choice.names[0]}: {MOSTLY_QUEUED}"
        return removable

    # ---- carrying

    def _carry(self, last_lsn: int, first_lsn: int) -> Steps:
        """Carry forward the content of queued messages up to an event."""
        seen: set[int] = set()
        find = Find(last_lsn)
        yield find
        while find.places is not None:
            places = sorted(find.places, key=_by_lsn)
            where = Where([place.message for place in places])
            yield where
            for place, lsn in zip(places, where.lsns, strict=True):
                # It may be in several queues, or have been found before it was carried.
                if place.message in seen or lsn > place.lsn:
                    continue
                if len(seen) >= SEEN_MAX:
                    seen.clear()
                seen.add(place.message)
                yield from self._carry_one(place, first_lsn)
                self.carried_messages += 1
            yield find

    def _carry_one(self, place: Place, first_lsn: int) -> Steps:
        event = yield from _read(place.lsn, place.message)
        chunks: tuple[int, ...] = ()
        body_bytes = 0
        detail = decode_detail(event.row[KIND], event.detail)
        assert isinstance(detail, RoutedDetail | CarriedDetail)
        if place.flags & LARGE:
            chunks = chunk_lsns(detail)
            body_bytes = detail.body_bytes
            if chunks[0] >= first_lsn:
                chunks = yield from self._carry_chunks(chunks)
            elif place.message not in self._lost:
                # Only its headers can be carried.
                self._lost.add(place.message)
                yield Warn(
                    f"chunk {chunks[0]} of its body is not in the journal, which begins with "
                    f"event {first_lsn}; remove the message, or restore the segments before",
                    place.message,
                )
        yield Do(
            Carry(
                message=place.message,
                address=place.address,
                priority=place.priority,
                flags=place.flags,
                before=place.lsn,
                headers=event.headers,
                body=event.body,
                chunks=chunks,
                body_bytes=body_bytes,
                origin=journaled(event.row, detail, event.headers),
            )
        )

    def _carry_chunks(self, lsns: tuple[int, ...]) -> Generator[Step, None, tuple[int, ...]]:
        found: list[int] = []
        for before, lsn in zip((0, *lsns), lsns, strict=False):
            read = ReadChunk(lsn, before)
            yield read
            carry = Do(CarryChunk(read.body, found[-1] if found else 0))
            yield carry
            found.append(carry.lsn)
        return tuple(found)

    def _await_index(self) -> Generator[Step, None, int]:
        self.doing = "waiting for the index"
        wait = AwaitIndex()
        yield wait
        return wait.lsn

    def _locate_chunks(self, last_lsn: int, indexed_lsn: int) -> Steps:
        """Give messages in memory the new places of their chunks.

        They came into memory before their `Carried` event was indexed, or were there all the time.
        A message whose own event is not indexed was not carried: the proof will find it.
        """
        self.doing = "locating bodies that were carried forward"
        find = FindResident(last_lsn)
        yield find
        while find.entries is not None:
            entries = [each for each in find.entries if each.message.id <= indexed_lsn]
            if entries:
                where = Where([entry.message.id for entry in entries])
                yield where
                for entry, lsn in zip(entries, where.lsns, strict=True):
                    event = yield from _read(lsn, entry.message.id)
                    relocate(entry.message, event.row[KIND], event.detail)
            yield find

    # ---- removing

    def _remove(self, removable: tuple[SealedSegment, ...], archive: str) -> Steps:
        """Remove the segments that no reader holds, and record it."""
        ask = AskFirstChunk()
        yield ask
        unread = tuple(segment for segment in removable if segment.last_lsn < ask.lsn)
        remove = Remove(unread)
        if unread:
            yield remove
        gone = [segment for segment in unread if segment.name in remove.removed]
        if not gone:
            self.held_back = "a reader now holds the segments that could leave"
            return
        self.more = True
        self.removed_segments += len(gone)
        yield Do(
            NoteSegmentsRemoved(
                last_lsn=gone[-1].last_lsn,
                segments=len(gone),
                bytes=sum(segment.file_bytes for segment in gone),
                archive=archive,
            )
        )


def worth_removing(
    removable: tuple[SealedSegment, ...], by_age: int, weights: list[Weight]
) -> tuple[SealedSegment, ...]:
    """Return how many of the segments may leave, with their queued messages carried forward.

    The first `by_age` are too old and leave in any case; `weights` are those of all. If only the
    size requires it, at most half of the leaving bytes may be written again: otherwise the same
    messages would be carried again and again. At most ROUND_SEGMENTS leave, or as few more as
    necessary.
    """
    by_first = {weight.first_lsn: weight for weight in weights}
    queued = total = found = 0
    for number, segment in enumerate(removable, 1):
        weight = by_first[segment.first_lsn]
        if number > by_age:
            queued += weight.queued_bytes
            total += weight.bytes
        if 2 * queued <= total:
            found = number
        if found and number >= ROUND_SEGMENTS:
            break
    return removable[:found]


def _read(lsn: int, message: int) -> Generator[Step, None, Event]:
    read = Read(lsn, message)
    yield read
    assert read.event is not None, "the driver of a round must answer"
    return read.event


def _by_lsn(place: Place) -> int:
    return place.lsn
