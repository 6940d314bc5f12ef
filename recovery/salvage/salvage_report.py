"""The report of a salvage, with its gaps in readable form (ADR 67).

Must never know how anything is salvaged.
"""

import msgspec

from daybook.engine.facts.events import BROKER_STARTED, BY_NUMBER, SKIPPED
from daybook.journal.blocks.block import kind_bit, queue_bit
from daybook.journal.segments.sound_blocks import Broken, Gap


class Missing(msgspec.Struct, frozen=True):
    """A gap for the report, with the footer's data about its blocks, if that is sound.

    `skipped` of the events never were any: a start had skipped their LSNs.
    Times are microseconds since 1970; `queues` may have one that is not concerned.
    """

    first_lsn: int
    last_lsn: int
    events: int
    segment: str
    offset: int
    bytes: int
    what: str
    time_min: int = 0
    time_max: int = 0
    kinds: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    skipped: int = 0


class Borrowed(msgspec.Struct, frozen=True):
    """A segment that was taken from the archive: why, and the proof that it is the right one."""

    segment: str
    first_lsn: int
    last_lsn: int
    bytes: int
    why: str
    proof: str


class Report(msgspec.Struct):
    """The salvaged parts and the losses.

    `state_from` says which state the salvage begins with, `state_lsn` the event of it: the queues
    there are exact, whatever is missing before. `notes` are sentences about files that could not be
    used. `replaced` counts events, by kind, that do not fit the remaining ones. `uncertain` are
    messages that were queued before a gap that no state covers: they may come twice.
    `without_content` are messages, as (queue, id), whose content is lost; `unknown` those that
    events behind a gap name, and that have no other events; `astray` those, as (address, id), whose
    content was carried behind a gap, and whose queue no remaining event names. `dropped` counts
    messages, by queue, that could not enter it. `archive` is the archive that was named, and
    `from_archive` the segments that were taken from it.
    """

    directory: str
    data_id: str
    source_id: str
    segments: int = 0
    blocks: int = 0
    events: int = 0
    first_lsn: int = 0
    last_lsn: int = 0
    state_from: str = ""
    state_lsn: int = 0
    lost_events: int = 0
    gaps: list[Missing] = []
    broken_chain: list[Broken] = []
    notes: list[str] = []
    replaced: dict[str, int] = {}
    created: list[str] = []
    renamed: list[str] = []
    uncertain: int = 0
    without_content: list[tuple[str, int]] = []
    without_content_count: int = 0
    unknown: list[tuple[str, int]] = []
    unknown_count: int = 0
    astray: list[tuple[str, int]] = []
    astray_count: int = 0
    dropped: dict[str, int] = {}
    archive: str = ""
    from_archive: list[Borrowed] = []

    @property
    def is_whole(self) -> bool:
        """Whether the journal is complete and sound."""
        return not (self.gaps or self.broken_chain or self.notes or self.without_content_count)


def skipped_in(gap: Gap) -> int:
    """Return how many LSNs of a gap a start had skipped, as far as the footer proves it.

    A start writes a block of them with the event of the start, and no others if no deliveries were
    in flight.
    """
    kinds = kind_bit(SKIPPED) | kind_bit(BROKER_STARTED)
    return sum(entry.event_count - 1 for entry in gap.blocks if entry.kinds == kinds)


def described(gap: Gap, names: dict[int, str]) -> Missing:
    """Describe a gap by the entries of a footer for its blocks."""
    blocks = [entry for entry in gap.blocks if entry.event_count]
    kinds, queues = 0, 0
    for entry in blocks:
        kinds |= entry.kinds
        queues |= entry.queues
    return Missing(
        gap.first_lsn, gap.last_lsn, gap.last_lsn - gap.first_lsn + 1, gap.segment, gap.offset,
        gap.bytes, gap.what,
        time_min=min((entry.time_min for entry in blocks), default=0),
        time_max=max((entry.time_max for entry in blocks), default=0),
        kinds=tuple(BY_NUMBER[kind].name for kind in BY_NUMBER if kind_bit(kind) & kinds),
        queues=tuple(dict.fromkeys(
            name for queue, name in names.items() if queue_bit(queue) & queues
        )),
        skipped=skipped_in(gap),
    )  # fmt: skip
