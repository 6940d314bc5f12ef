"""Giving one follower what it lacks: from the place up to which both journals agree.

Data flow: `ask` begins; each answer leads to what is sent next; `pull` returns blocks, as many as
may be under way. What is sent comes from the leader's page cache, and may be on its way to the
leader's disk, too. Must never know what counts as durable for the cluster.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from daybook.journal.blocks.format import (
    FIRST_LSN,
    block_bytes,
    segment_name,
    whole_blocks_bytes,
)
from daybook.journal.disk import Disk
from daybook.journal.places import BEFORE_ALL, Begun, Place, Run, end_at, next_part, segment_begun
from daybook.journal.segments.segment import first_lsn_of
from daybook.replication.base_files import BaseFault, base_of, described, read_part, sound_base
from daybook.replication.epochs import Beginning, agreed_end
from daybook.replication.messages import (
    Ack,
    Answer,
    Ask,
    BasePart,
    Blocks,
    Join,
    Joined,
    Offer,
    Refused,
    Said,
    Segment,
    Standing,
    Taken,
)

WINDOW_BYTES: Final = 16 << 20
"""How many bytes may be on their way to a follower."""
PART_BYTES: Final = 2 << 20


class BaseShipment:
    """The base on its way to a follower that lacks removed segments."""

    def __init__(self, disk: Disk) -> None:
        """Raises BaseFault and OSError."""
        self.description: Final = described(disk)
        if not self.description:
            raise BaseFault("segments have left, and there is no base")
        self._base: Final = base_of(self.description)
        self._disk: Final = disk
        self._sent = 0
        self._is_wanted = False
        self.taken = 0

    def take(self, said: Taken) -> None:
        """Note how much has arrived."""
        self.taken, self._is_wanted = said.offset, True

    def pull(self) -> Iterator[BasePart]:
        """Return what is to be sent now. Raises BaseFault and OSError."""
        end = min(self._base.bytes, self.taken + WINDOW_BYTES) if self._is_wanted else 0
        while self._sent < end:
            data = read_part(self._disk, self._base, self._sent, PART_BYTES)
            if not data:
                raise BaseFault(f"the base ends at {self._sent:,} of {self._base.bytes:,} bytes")
            part = BasePart(self._sent, data)
            self._sent += len(data)
            yield part


class Shipment:
    """What one follower gets. `acked` is its last event on disk, None until it has joined;
    `acked_place` is where its journal ends. `base` is on its way first, if segments have left that
    the follower lacks."""

    def __init__(
        self, ask: Ask, disk: Disk, data_id: bytes, epochs: tuple[Beginning, ...], end: Place,
        base_disk: Disk | None = None,
    ) -> None:  # fmt: skip
        self.ask: Final = ask
        self._disk: Final = disk
        self._base_disk: Final = base_disk
        self._data_id: Final = data_id
        self._epochs: Final = epochs
        self._end = end
        self._place = BEFORE_ALL
        self._begun = -1
        self._under_way: Final[deque[Place]] = deque()
        self.base: BaseShipment | None = None
        self.is_joined = False
        # When it answered last.
        self.answered = 0
        self.acked: int | None = None
        self.acked_place = BEFORE_ALL
        self.refused: Refused | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the follower gets what it lacks."""
        return self.is_joined or self.base is not None

    def needed_lsn(self, since: int) -> int:
        """Return the event from which on the journal must stay for this follower; 0 if it gets
        nothing, or has owed an answer since before that time."""
        if self.is_owing and self.answered < since:
            return 0
        if self.base is not None:
            return first_lsn_of(self._disk)
        return max(self._place.segment, FIRST_LSN) if self.is_joined else 0

    @property
    def is_owing(self) -> bool:
        """Whether something is on its way to the follower."""
        return bool(self._under_way) or self.base is not None

    @property
    def has_all(self) -> bool:
        """Whether the follower has acknowledged everything."""
        return self.is_joined and self._place == self._end and not self._under_way

    def receive(self, said: Answer, now: int) -> Join | Offer | None:
        """Take an answer; return what is to be said at once. Raises JournalError and OSError."""
        self.answered = now
        if isinstance(said, Refused):
            self.is_joined, self.base, self.refused = False, None, said
        elif isinstance(said, Standing):
            return self._join(said)
        elif isinstance(said, Joined):
            self.is_joined, self.acked, self.acked_place = True, said.lsn, self._place
        elif isinstance(said, Taken) and self.base is not None:
            self.base.take(said)
        elif isinstance(said, Ack):
            self.acked, self.acked_place = said.lsn, said.place
            if self.is_joined:
                # Lanes may have brought more than was sent here.
                self._place = max(self._place, said.place)
            while self._under_way and self._under_way[0] <= said.place:
                self._under_way.popleft()
        return None

    def _join(self, said: Standing) -> Join | Offer:
        agreed = BEFORE_ALL
        if said.data_id in (b"", self._data_id):
            agreed = agreed_end(self._epochs, self._end, said.epochs, said.place)
        first = first_lsn_of(self._disk)
        if first == FIRST_LSN or agreed.segment >= first:
            self._place = agreed
            return self._from(agreed, end_at(self._disk, agreed)[1])
        begun = segment_begun(self._disk, first).place
        hashed = end_at(self._disk, begun)[1]
        if first <= said.base + 1 <= self._own_base() + 1:
            # Its base has come already.
            self._place = begun
            return self._from(begun, hashed)
        if agreed == said.place != BEFORE_ALL and said.lsn + 1 == first:
            # The follower has exactly what has left here.
            self._place = begun
            return self._from(agreed, hashed)
        return self._offer(agreed)

    def _own_base(self) -> int:
        base = sound_base(self._base_disk) if self._base_disk is not None else None
        return base.lsn if base is not None else 0

    def _from(self, place: Place, hashed: bytes) -> Join:
        return Join(self._data_id, place, hashed, self._epochs)

    def _offer(self, agreed: Place) -> Offer:
        if self._base_disk is None:
            raise BaseFault("segments have left, and there is no base")
        self.base = BaseShipment(self._base_disk)
        return Offer(self._data_id, agreed, self.base.description)

    def pull(self, until: Place) -> Iterator[Said]:
        """Return what is to be sent now: of what is written here, up to a place."""
        self._end = max(self._end, until)
        if self.base is not None:
            yield from self.base.pull()
            return
        while self.is_joined and len(self._under_way) < WINDOW_BYTES // PART_BYTES:
            part = next_part(self._disk, self._place, until)
            if part is None:
                return
            if isinstance(part, Begun):
                yield self._begin(part)
                continue
            if self._begun != part.place.segment:
                begun = segment_begun(self._disk, part.place.segment)
                self._begun = part.place.segment
                if part.place == begun.place:
                    # The follower's may be another one of the same name, which has no blocks yet.
                    yield self._begin(begun)
            data = self._blocks(part)
            yield Blocks(part.place, data)
            self._place = part.place._replace(offset=part.place.offset + len(data))
            self._under_way.append(self._place)

    def _begin(self, begun: Begun) -> Segment:
        self._place, self._begun = begun.place, begun.place.segment
        return Segment(begun.header)

    def _blocks(self, run: Run) -> bytes:
        """Read whole blocks: as many as fit, and at least one."""
        file = self._disk.open(segment_name(run.place.segment))
        try:
            data = file.pread(min(run.size, PART_BYTES), run.place.offset)
            size = whole_blocks_bytes(data)
            if not size:
                size = block_bytes(data)
                data = file.pread(size, run.place.offset)
            return data[:size]
        finally:
            file.close()
