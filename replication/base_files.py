"""The base of a journal on its way to a node that lacks removed segments (ADR 118).

The leader reads its base in parts. The follower writes them into a file of their own, compares
the SHA-256, and then begins its journal anew: the segments that it had leave, as they left the
leader, and the base takes their place. That is decided by a file, so one that was interrupted is
finished at the next start, before anything reads the journal.

Invariants: until the decision is durable, journal and base are as before; from then on, whatever
happens, the journal is empty and the base is the new one. Fault model: a base may be damaged, or
be replaced by a newer one meanwhile; both end the transfer. Must never know what a table is.
"""

import errno
import hashlib
from struct import Struct
from typing import Final

import msgspec
from crc32c import crc32c

from daybook.journal.data_directory import BASE_DESCRIPTION
from daybook.journal.disk import Disk, File, write_all, write_content
from daybook.journal.errors import DiskFull, JournalError
from daybook.journal.segments.segment import segment_names
from daybook.paging.snapshots.base import Base, name_of

COMING: Final = "coming"
"""The file of a base, until it is whole."""
RENEWAL_NAME: Final = "next.base"
"""The file of a journal with the decision to begin anew; it has the description of the base."""
_UNFINISHED: Final = "next.base.part"
_DESCRIPTION_UNFINISHED: Final = f"{BASE_DESCRIPTION}.part"
_DESCRIPTION_BYTES_MAX: Final = 64 << 10
_CRC: Final = Struct("<I")


class BaseFault(JournalError):
    """The base cannot be sent, or is not what it should be."""


def described(disk: Disk) -> bytes:
    """Return the description of the base of a folder, empty without one. Raises OSError."""
    try:
        return _read(disk, BASE_DESCRIPTION)
    except FileNotFoundError:
        return b""


def base_of(description: bytes) -> Base:
    """Return the base that a description names. Raises BaseFault."""
    try:
        base = msgspec.json.decode(description, type=Base)
    except msgspec.DecodeError as error:
        raise BaseFault(f"the description of the base cannot be read: {error}") from error
    if base.file != name_of(base.lsn):
        raise BaseFault(f"the base says event {base.lsn} and names file {base.file}")
    return base


def sound_base(disk: Disk) -> Base | None:
    """Return the base of a folder; None without one, or if its description cannot be read."""
    description = described(disk)
    try:
        return base_of(description) if description else None
    except BaseFault:
        return None


def read_part(disk: Disk, base: Base, offset: int, size: int) -> bytes:
    """Read a part of a base. Raises BaseFault if it was replaced meanwhile, and OSError."""
    try:
        file = disk.open(base.file)
    except FileNotFoundError:
        raise BaseFault("the base was replaced by a newer one while it was sent") from None
    try:
        return file.pread(size, offset)
    finally:
        file.close()


class ComingBase:
    """A base that arrives. `taken` is how many bytes of it have been written."""

    def __init__(self, disk: Disk, description: bytes) -> None:
        """Begin anew. Raises BaseFault and OSError."""
        self.description: Final = description
        self.base: Final = base_of(description)
        self.taken = 0
        self._hasher: Final = hashlib.sha256()
        self._disk: Final = disk
        self._file: Final[File] = disk.open_for_writing(COMING)
        self._file.truncate(0)

    def append(self, offset: int, data: bytes) -> bool:
        """Write a part; return whether it was the last one, and all are on disk and are what the
        description says. Raises BaseFault, DiskFull and OSError."""
        if offset != self.taken or not data:
            raise BaseFault(f"a part of the base for {offset:,} came, not for {self.taken:,}")
        try:
            write_all(self._file, data, offset)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(f"no space for a base of {self.base.bytes:,} bytes") from error
            raise
        self._hasher.update(data)
        self.taken += len(data)
        if self.taken < self.base.bytes:
            return False
        if self.taken > self.base.bytes or self._hasher.hexdigest() != self.base.sha256:
            raise BaseFault(
                "the base of the leader is damaged: its SHA-256 is not that of its description. "
                "The next round of retention there makes it again"
            )
        self._file.fdatasync()
        self._disk.sync_directory()
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def decide_renewal(disk: Disk, description: bytes) -> None:
    """Decide that a journal begins anew behind the base that has come; `finish_renewal` carries it
    out. Raises OSError."""
    write_content(disk, _UNFINISHED, (_CRC.pack(crc32c(description)), description))
    disk.rename(_UNFINISHED, RENEWAL_NAME)
    disk.sync_directory()


def finish_renewal(disk: Disk, base_disk: Disk | None) -> None:
    """Carry out what `decide_renewal` decided, if it did. Raises JournalError and OSError; then it
    may be tried again."""
    description = _decided(disk)
    if description is None:
        return
    if base_disk is None:
        raise JournalError(f"{RENEWAL_NAME} wants another base, and there is no folder for it")
    # The process that decided may have ended before the decision was on the disk.
    disk.sync_directory()
    for name in segment_names(disk):
        disk.remove(name)
    disk.sync_directory()
    base = base_of(description)
    names = base_disk.names()
    if COMING in names:
        base_disk.rename(COMING, base.file)
    elif base.file not in names:
        raise JournalError(f"{RENEWAL_NAME} wants the base {base.file}, and that is missing")
    write_content(base_disk, _DESCRIPTION_UNFINISHED, (description,))
    base_disk.sync_directory()
    base_disk.rename(_DESCRIPTION_UNFINISHED, BASE_DESCRIPTION)
    base_disk.sync_directory()
    for name in names:
        if name.endswith(".mdb") and name != base.file:
            base_disk.remove(name)
    disk.remove(RENEWAL_NAME)
    disk.sync_directory()


def _decided(disk: Disk) -> bytes | None:
    try:
        packed = _read(disk, RENEWAL_NAME)
    except FileNotFoundError:
        return None
    description = packed[_CRC.size :]
    if len(packed) < _CRC.size or _CRC.pack(crc32c(description)) != packed[: _CRC.size]:
        raise JournalError(
            f"{RENEWAL_NAME} says that the journal begins anew, and is damaged: take the journal "
            "away, and this node gets all of it again"
        )
    return description


def _read(disk: Disk, name: str) -> bytes:
    file = disk.open(name)
    try:
        return file.pread(_DESCRIPTION_BYTES_MAX, 0)
    finally:
        file.close()
