"""What a node may never forget: which epoch it promised to whom, and the epochs of its journal.

A file of the data directory, written as a whole before anything that depends on it is said. Fault
model: one that is damaged is refused, because a forgotten promise could make two leaders.
"""

from collections.abc import Callable
from threading import Lock
from typing import Final

import msgspec
from crc32c import crc32c
from msgspec.structs import replace

from daybook.errors import DaybookError
from daybook.journal.disk import Disk, write_content
from daybook.replication.epochs import Beginning

NAME: Final = "replication.json"
_PART: Final = "replication.json.part"


class RecordDamaged(DaybookError):
    """The file is not what was written."""


class Record(msgspec.Struct, frozen=True):
    """The newest epoch that was promised, and to which node; epochs that the journal has.

    A node that has lost its directory may have acknowledged things in epochs up to `unknown`. It is
    whole again once it has had everything that they may have confirmed.
    """

    promised: int = 0
    node: str = ""
    epochs: tuple[Beginning, ...] = ()
    unknown: int = 0
    is_whole: bool = False
    id: str = ""
    """Drawn when the data directory was new."""


class _Sealed(msgspec.Struct, frozen=True):
    record: msgspec.Raw
    crc: int


class RecordFile:
    """The record of a node, on its disk. Each change is of the newest record, whatever thread makes
    it."""

    def __init__(self, disk: Disk) -> None:
        """Read it. Raises RecordDamaged and OSError."""
        self._disk: Final = disk
        self._lock: Final = Lock()
        self.record = self._read()

    def _read(self) -> Record:
        # The last process may have ended after it renamed the file: others count on what it says
        # from now on, so it must be on the disk.
        self._disk.sync_directory()
        try:
            file = self._disk.open(NAME)
        except FileNotFoundError:
            return Record()
        try:
            packed = file.pread(file.size(), 0)
        finally:
            file.close()
        try:
            sealed = msgspec.json.decode(packed, type=_Sealed)
            if crc32c(bytes(sealed.record)) == sealed.crc:
                return msgspec.json.decode(sealed.record, type=Record)
        except msgspec.DecodeError:
            pass
        raise RecordDamaged(
            f"{NAME} is damaged, so this node cannot know what it promised: take the data directory"
            " away, and let the node begin with an empty one"
        )

    def promise(self, epoch: int, node: str, unknown: int = 0) -> None:
        """Promise an epoch to a node; durable when this returns. Raises OSError."""

        def change(known: Record) -> Record:
            assert epoch > known.promised
            least = max(unknown, known.unknown)
            return replace(known, promised=epoch, node=node, unknown=least)

        self._change(change)

    def set_id(self, drawn: str) -> None:
        """Give the data directory an id; durable when this returns. Raises OSError."""
        self._change(lambda known: replace(known, id=drawn))

    def set_unknown(self, epoch: int) -> None:
        """Note that nothing of newer epochs is unknown; durable when this returns. Raises
        OSError."""
        self._change(lambda known: replace(known, unknown=epoch))

    def set_epochs(self, epochs: tuple[Beginning, ...]) -> None:
        """Note the epochs of the journal; durable when this returns. Raises OSError."""
        self._change(lambda known: replace(known, epochs=epochs))

    def set_whole(self) -> None:
        """Note that the journal is whole; durable when this returns. Raises OSError."""
        self._change(lambda known: replace(known, is_whole=True))

    def set_lost(self) -> None:
        """Note that the journal is lost, or about to be; durable when this returns. One that was
        not whole has acknowledged nothing of an epoch that is known. Raises OSError."""

        def change(known: Record) -> Record:
            if not known.is_whole:
                return known
            return replace(known, is_whole=False, unknown=known.promised)

        self._change(change)

    def _change(self, change: Callable[[Record], Record]) -> None:
        # A promise is written by the thread of the disk, all else by the loop, too.
        with self._lock:
            record = change(self.record)
            if record != self.record:
                self._write(record)

    def _write(self, record: Record) -> None:
        packed = msgspec.json.encode(record)
        sealed = msgspec.json.encode(_Sealed(msgspec.Raw(packed), crc32c(packed)))
        write_content(self._disk, _PART, (sealed,))
        self._disk.rename(_PART, NAME)
        self._disk.sync_directory()
        self.record = record
