"""The journal of a node that follows: opened, continued, cut where the leader's goes another way.

Must never know who leads.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from daybook.errors import DaybookError
from daybook.journal.blocks.format import FIRST_LSN, NO_HASH
from daybook.journal.blocks.layout import RowLayout
from daybook.journal.cutting import decide_cut, finish_cut
from daybook.journal.disk import Disk
from daybook.journal.errors import Corruption, NoJournal
from daybook.journal.groups import GroupMark, drop_torn_group
from daybook.journal.places import BEFORE_ALL, Place, end_at
from daybook.journal.replica import Replica
from daybook.journal.segments.segment import segment_names
from daybook.paging.snapshots.base import Base
from daybook.replication.base_files import (
    BaseFault,
    ComingBase,
    decide_renewal,
    finish_renewal,
    sound_base,
)


class OtherHistory(DaybookError):
    """The journal is not what the leader takes it for."""


class ReplicaFiles:
    """The journal of a node, while it follows. `kept` gets what is cut off, and `on_kept` is called
    once it is there, or was before.

    `base` is the folder of the base. `quiet` returns a context in which nothing else uses the
    journal: it begins anew there.
    """

    def __init__(
        self, disk: Disk, kept: Disk, layout: RowLayout, *, segment_bytes: int,
        device_block_bytes: int = 0, base: Disk | None = None,
        quiet: Callable[[], AbstractContextManager[None]] = nullcontext,
        on_kept: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """Finish a cut or a renewal that was interrupted, and open what is there. Raises
        JournalError and OSError."""
        self.disk: Final = disk
        self._base_disk: Final = base
        self._quiet: Final = quiet
        self._coming: ComingBase | None = None
        self._agreed = BEFORE_ALL
        self._kept: Final = kept
        self._on_kept: Final = on_kept
        self._layout: Final = layout
        self._segment_bytes: Final = segment_bytes
        self._device_block_bytes: Final = device_block_bytes
        self._mark: Final = GroupMark(disk)
        drop_torn_group(disk)
        finish_cut(disk, kept)
        on_kept()
        finish_renewal(disk, base)
        self._base: Base | None = sound_base(base) if base is not None else None
        self._replica: Replica | None = None
        if segment_names(disk):
            self._open()

    def _open(self) -> None:
        found, _ = Replica.open(
            self.disk, self._layout, segment_bytes=self._segment_bytes,
            device_block_bytes=self._device_block_bytes,
        )  # fmt: skip
        assert isinstance(found, Replica)
        self._replica = found

    @property
    def _journal(self) -> Replica | None:
        """The journal, if it has a segment."""
        return self._replica if self._replica is not None and self._replica.segment else None

    @property
    def data_id(self) -> bytes:
        """The id of the data directory; empty without a journal."""
        return self._journal.data_id if self._journal is not None else b""

    @property
    def base(self) -> int:
        """The event behind which a journal without segments continues; 0 if none has left."""
        return self._base.lsn if self._base is not None and self._journal is None else 0

    @property
    def is_whole(self) -> bool:
        """Whether the journal reaches up to the base, so that a broker could open it."""
        return self._base is None or self.lsn >= self._base.lsn

    @property
    def place(self) -> Place:
        """Where the journal ends."""
        return self._replica.place if self._replica is not None else BEFORE_ALL

    @property
    def lsn(self) -> int:
        """The last event, which is on disk; 0 if there is none."""
        return self._journal.durable_lsn if self._journal is not None else 0

    @property
    def last_hash(self) -> bytes:
        """The hash of the last block; that of no block without a journal."""
        return self._replica.last_hash if self._replica is not None else NO_HASH

    def continue_from(self, data_id: bytes, place: Place, hashed: bytes) -> bool:
        """Let the journal end at a place, behind the block with a hash; return whether anything was
        cut off. Raises OtherHistory, JournalError and OSError."""
        if self._journal is None:
            self._begin_at(data_id, place, hashed)
            return False
        if self._journal.data_id != data_id:
            raise OtherHistory(
                f"this node has the journal of another cluster, {self._journal.data_id.hex()}, and"
                f" the leader has {data_id.hex()}: take its data directory away, and let it begin"
                " with an empty one"
            )
        if place > self.place:
            raise OtherHistory(f"the journal of this node ends at {self.place}")
        if self._hash_at(place) != hashed:
            raise OtherHistory(f"the journal of this node has another block before {place}")
        if place == self.place:
            return False
        self._cut(place)
        self._open()
        return True

    def lsn_at(self, place: Place) -> int:
        """Return the last event before a place. Raises OtherHistory."""
        return self._end_at(place)[0] - 1

    def _hash_at(self, place: Place) -> bytes:
        return self._end_at(place)[1]

    def _end_at(self, place: Place) -> tuple[int, bytes]:
        try:
            return end_at(self.disk, place)
        except (NoJournal, Corruption) as error:
            raise OtherHistory(f"no block of this node ends at {place}: {error}") from error

    def _cut(self, place: Place) -> None:
        """Cut off everything behind a place, and close the journal."""
        self.close()
        decide_cut(self.disk, place)
        finish_cut(self.disk, self._kept)
        self._on_kept()

    def _begin_at(self, data_id: bytes, place: Place, hashed: bytes) -> None:
        """Make a journal without segments: the first one begins with the event of a place."""
        first = max(place.segment, FIRST_LSN)
        if first > self.base + 1:
            raise OtherHistory("this node has no journal that could continue")
        if self._base is not None and self._base.data_id != data_id.hex():
            raise OtherHistory(f"this node has the base of {self._base.data_id}")
        self._replica = Replica.empty(
            self.disk, self._layout, data_id=data_id, segment_bytes=self._segment_bytes,
            device_block_bytes=self._device_block_bytes, first_lsn=first, previous_hash=hashed,
        )  # fmt: skip

    def begin_base(self, data_id: bytes, place: Place, description: bytes) -> None:
        """Prepare for a base, behind which the journal is to begin anew; up to a place it is the
        leader's. Raises OtherHistory, BaseFault and OSError."""
        self._drop_coming()
        if self._base_disk is None or self.data_id not in (b"", data_id):
            raise OtherHistory(f"this node has the journal of {self.data_id.hex()}")
        coming = ComingBase(self._base_disk, description)
        self._coming, self._agreed = coming, place
        if coming.base.data_id != data_id.hex() or coming.base.lsn <= self.lsn:
            raise BaseFault(f"the base of event {coming.base.lsn} is not for this node")

    @property
    def taken(self) -> int:
        """How many bytes of a base have come."""
        return self._coming.taken if self._coming is not None else 0

    def append_base(self, offset: int, data: bytes) -> bool:
        """Write a part of the base; return whether it was the last one, and all are on disk.
        Raises BaseFault, DiskFull and OSError."""
        if self._coming is None:
            raise BaseFault("a part of a base came, and none was offered")
        return self._coming.append(offset, data)

    def begin_anew(self) -> None:
        """Begin the journal anew behind the base that has come. Raises OtherHistory, JournalError
        and OSError."""
        coming = self._coming
        assert coming is not None
        if self._journal is not None and self._agreed < self.place:
            # What only this node has is kept.
            self._hash_at(self._agreed)
            self._cut(self._agreed)
        assert self._base_disk is not None
        with self._quiet():
            decide_renewal(self.disk, coming.description)
            self.close()
            finish_renewal(self.disk, self._base_disk)
        self._base = coming.base

    def _drop_coming(self) -> None:
        if self._coming is not None:
            self._coming.close()
            self._coming = None

    def begin_segment(self, header: bytes) -> None:
        """Begin the next segment. Raises Damage, DiskFull and JournalFailed."""
        assert self._replica is not None
        self._replica.begin(header)

    def append(self, place: Place, blocks: bytes) -> None:
        """Write whole blocks, which are on disk when this returns; those that are there already,
        because they came over a lane, are left out. Raises Damage and JournalFailed."""
        assert self._replica is not None
        end = self.place
        if place.segment == end.segment and place < end:
            blocks = blocks[end.offset - place.offset :]
            place = end
        if place != end:
            raise OtherHistory(f"blocks for {place} came, and the journal ends at {end}")
        group = list(self._replica.cut_into_blocks(blocks))
        if not group:
            return
        try:
            if len(group) > 1:
                self._mark.set(place)
            else:
                self._mark.clear()
        except OSError as error:
            raise self._replica.fail(error) from error
        self._replica.append_group(group)

    def settle(self) -> None:
        """Do what could wait until the newest block was acknowledged. Raises Damage."""
        if self._replica is not None:
            self._replica.settle()

    def close(self) -> None:
        """Close the files. Raises OSError."""
        self._drop_coming()
        # Whoever writes next does not write groups.
        self._mark.clear()
        self._mark.close()
        if self._replica is not None:
            self._replica.close()
            self._replica = None
