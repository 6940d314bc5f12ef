"""The tables of the index: one LMDB environment, its keys, and the errors it can have.

Everything in it is derived from the journal. Fault model: a commit is synchronous, and complete or
absent; a full or read-only disk makes a commit fail and leaves the one before untouched; the files
may have been cut, overwritten or deleted while they were closed. Every row is checked where it is
read (`paging.tables.checked`); the structure around the rows, damage of which may end the process,
is checked before tables are opened (`paging.tables.structure`). Must never know the meaning of the
values (`paging.tables.pages`, `paging.tables.records`).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Final, TypeVar

import lmdb

from daybook.engine.queues.queue import Due
from daybook.errors import DaybookError
from daybook.journal.data_directory import TABLES, TABLES_LOCK
from daybook.journal.disk import sync_directory
from daybook.journal.spares import OUT_OF_DESCRIPTORS, SPARES
from daybook.paging.tables.checked import IndexDamaged as IndexDamaged  # noqa: PLC0414 (for callers that open tables)
from daybook.paging.tables.checked import Table, Transaction

FORMAT: Final = 3
"""Number of the format of keys and values; an index of another format is rebuilt."""

LOCK_FILE_BYTES: Final = 8192
"""The size of LMDB's lock file for 126 readers."""
MAP_BYTES_MIN: Final = 16 * 1024 * 1024
"""Size of a new map; it doubles when a transaction does not fit."""

SHARED_MAP_BYTES: Final = 1 << 36
"""Size of the map of tables that several threads use. It costs addresses, not memory."""

ROOM_BYTES_MIN: Final = 8 * 1024 * 1024
ROOM_BYTES_PER_EVENT: Final = 128
"""Room in the map that is reserved before a batch; a batch that needs more is repeated."""

META: Final = b"meta"
ADDRESSES: Final = b"addresses"
QUEUES: Final = b"queues"
CONNECTIONS: Final = b"connections"
CONSUMERS: Final = b"consumers"
SETTINGS: Final = b"settings"
PAGES: Final = b"pages"
FLIGHTS: Final = b"flights"
TIMERS: Final = b"expiring"
"""The name is older than other timers: only expiries were listed then."""
BLOCKS: Final = b"blocks"
CLUSTERS: Final = b"clusters"
CARRIED: Final = b"carried"
LARGE: Final = b"large"
IDS: Final = b"ids"
LAST_VALUES: Final = b"last-values"
ANNOTATIONS: Final = b"annotations"
NAMES: Final = (
    META, ADDRESSES, QUEUES, CONNECTIONS, CONSUMERS, SETTINGS, PAGES, FLIGHTS, TIMERS, BLOCKS,
    CLUSTERS,
    CARRIED, LARGE, IDS, LAST_VALUES, ANNOTATIONS,
)  # fmt: skip
LATER: Final = frozenset((LAST_VALUES, ANNOTATIONS))
"""Tables that an index of this format may lack, because it is older than they are."""
ID_KEY: Final = Struct(">Q")
"""Addresses, queues, connections, consumers: the id. Blocks: the first LSN. Carried: the message
id; the value is the LSN of the event that has its content now, in the same form."""

PAGE_KEY: Final = Struct(">QBQ")
"""Queue id, level, id of the first message of the page."""

LEVEL_KEY: Final = Struct(">QB")
"""The prefix of the keys of all pages of a level: queue id, level."""

FLIGHT_KEY: Final = Struct(">QQ")
"""Queue id, message id."""

ANNOTATION_KEY: Final = Struct(">QQ")
"""Queue id, message id."""

LARGE_KEY: Final = Struct(">QQ")
"""First chunk of a large message, message id."""

IDS_KEY: Final = Struct(">QQ")
"""Address id, number of the page."""

LAST_VALUE_KEY: Final = Struct(">Q16s")
"""Queue id, hash of the last value key."""
LAST_VALUE: Final = Struct(">QQ")
"""The newest message with that key, and the event that said so."""

TIMER_KEY: Final = Struct(">QQQ")
"""Milliseconds since 1970 with the reason (`engine.state.timers`) above them, message id, queue
id."""
_REASON_SHIFT: Final = 56
_TIME_MASK: Final = (1 << _REASON_SHIFT) - 1

BLOCK_VALUE: Final = Struct("<QQIqqQQ")
"""Segment (its first LSN), offset, count, lowest and highest time and message."""

CLUSTER_VALUE: Final = Struct("<QQQQ")
"""Last LSN, bytes of the file (0: there is none) and of what it has uncompressed, and how many
entries of the pages have an LSN in the range. The ranges follow each other from 0 on."""

SETTINGS_KEY: Final = b"settings"
FORMAT_KEY: Final = b"format"
DATA_ID_KEY: Final = b"data-id"
POSITION_KEY: Final = b"position"
POSITION_VALUE: Final = Struct("<Q16sq")
"""Indexed LSN, hash of the block that ends there, and its time in microseconds since 1970."""

_META_ROWS: Final = 3
_FORMAT_VALUE: Final = Struct("<I")
_T = TypeVar("_T")

# The errors of LMDB for an impossible structure of the file.
_DAMAGE: Final = (
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.InvalidError,
    lmdb.VersionMismatchError,
    lmdb.IncompatibleError,
    lmdb.NotFoundError,
    lmdb.BadValsizeError,
    lmdb.BadDbiError,
    lmdb.PageFullError,
    lmdb.CursorFullError,
)


class IndexUnwritable(DaybookError):
    """The index cannot be written now: the disk is full or read-only. Commits made before
    remain."""


def level_of(level: int) -> int:
    """Number of a level in keys, and back: the highest priority comes first, held and scheduled
    entries last."""
    return (9 - level) & 15


def timer_key(reason: int, timer: Due) -> bytes:
    """Key of a timer."""
    time, message_id, queue_id = timer
    return TIMER_KEY.pack(reason << _REASON_SHIFT | time, message_id, queue_id)


def timer_of(key: bytes) -> tuple[int, Due]:
    """Return the reason and the timer of a key."""
    time, message_id, queue_id = TIMER_KEY.unpack(key)
    return time >> _REASON_SHIFT, (time & _TIME_MASK, message_id, queue_id)


def page_key(queue_id: int, level: int, first: int) -> bytes:
    """Key of the page of a level that begins with message `first`."""
    return PAGE_KEY.pack(queue_id, level_of(level), first)


def queue_prefix(queue_id: int) -> bytes:
    """The prefix of all keys that begin with the id of a queue."""
    return ID_KEY.pack(queue_id)


def level_prefix(queue_id: int, level: int) -> bytes:
    """The prefix of the keys of all pages of a level."""
    return LEVEL_KEY.pack(queue_id, level_of(level))


UNREADABLE: Final = (
    OSError,
    lmdb.DiskError,
    lmdb.LockError,
    lmdb.MemoryError,
    lmdb.ReadersFullError,
    lmdb.ReadonlyError,
)
"""Errors that do not mean damage of the tables; all others that LMDB raises are caused by the file.
"""


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn the exceptions of LMDB into IndexDamaged and IndexUnwritable.

    MapFullError and MapResizedError pass: they say that the map must grow.
    """
    try:
        yield
    except (lmdb.MapFullError, lmdb.MapResizedError):
        raise
    except _DAMAGE as damage:
        raise IndexDamaged(
            f"the index in {path} is damaged: {damage}. It is derived from the journal and can be "
            "deleted"
        ) from damage
    except (lmdb.Error, OSError) as error:
        raise IndexUnwritable(
            f"the index in {path} cannot be used: {error}. Check that the disk has space and "
            "that the directory may be written"
        ) from error


class Tables:
    """An open environment. One process opens it once; it may have one writer among all processes.

    `path` is the directory. Transactions name a table by `db(NAME)`.
    """

    def __init__(
        self, path: Path, env: lmdb.Environment, *, readonly: bool, can_grow: bool = True
    ) -> None:
        """Begin with an environment that `open_for_writing` or `open_for_reading` opened.

        Unless it `can_grow`, the map keeps its size, and another thread may read while one writes.
        """
        self.path: Final = path
        self._env: Final = env
        self._can_grow: Final = can_grow
        self._is_writing = False
        self._dbs: Final[dict[bytes, Table]] = {}
        for name in NAMES:
            try:
                self._dbs[name] = Table(path, name, env.open_db(name, create=not readonly))
            except lmdb.NotFoundError:
                if name not in LATER:
                    raise

    def db(self, name: bytes) -> Table:
        """Return a table, to be passed to the methods of a transaction."""
        return self._dbs[name]

    def has(self, name: bytes) -> bool:
        """Whether a table exists that may be created later: asks again if it did not before.

        Not within a transaction, which would not see it. Raises IndexDamaged and IndexUnwritable.
        """
        if name not in self._dbs:
            with translated(self.path):
                try:
                    self._dbs[name] = Table(self.path, name, self._env.open_db(name, create=False))
                except (lmdb.NotFoundError, lmdb.MapResizedError):
                    return False
        return True

    def close(self) -> None:
        """Close the environment; no transaction may be open.

        If a thread is writing still, because its disk hangs, the environment stays open until the
        process ends.
        """
        if not self._is_writing:
            self._env.close()

    # ---- transactions

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """A view of the last commit. Raises IndexDamaged and IndexUnwritable.

        Not to be held for long: the writer cannot reuse the pages that it sees.
        """
        with translated(self.path):
            try:
                txn = self._env.begin(buffers=False)
            except lmdb.MapResizedError:
                # The writer made it larger: adopt its size.
                self._env.set_mapsize(0)
                txn = self._env.begin(buffers=False)
            try:
                yield Transaction(txn)
            finally:
                txn.abort()

    def write(self, work: Callable[[Transaction], _T]) -> _T:
        """Do work in one transaction and commit it; if the map is too small, grow it and repeat the
        work.

        So `work` must be repeatable. If an exception is raised, no row is written. Raises
        IndexDamaged and IndexUnwritable.
        """
        self._is_writing = True
        try:
            return self._write(work)
        finally:
            self._is_writing = False

    def _write(self, work: Callable[[Transaction], _T]) -> _T:
        while True:
            with translated(self.path):
                try:
                    with self._env.begin(write=True, buffers=False) as txn:
                        found = work(Transaction(txn))
                    self._extend()
                    return found
                except lmdb.MapFullError:
                    self.grow()
                except lmdb.MapResizedError:
                    self._env.set_mapsize(0)

    @property
    def free_bytes(self) -> int:
        """Bytes that the map has left, without reusable pages in it."""
        info = self._env.info()
        return int(info["map_size"]) - (int(info["last_pgno"]) + 1) * self._page_bytes()

    def make_room(self, events: int) -> None:
        """Grow the map before so many events are folded, so that the work need not be repeated."""
        wanted = ROOM_BYTES_MIN + events * ROOM_BYTES_PER_EVENT
        while self._can_grow and self.free_bytes < wanted:
            self.grow()

    def copy_to(self, directory: Path) -> None:
        """Write a compact copy of the last commit into an existing, empty directory.

        Raises IndexDamaged and IndexUnwritable.
        """
        with translated(self.path):
            self._env.copy(str(directory), compact=True)

    def grow(self) -> None:
        """Double the size of the map; no transaction may be open in this process.

        Raises IndexUnwritable if it must keep its size.
        """
        if not self._can_grow:
            raise IndexUnwritable(
                f"the index in {self.path} is as large as it can be in one process, "
                f"{SHARED_MAP_BYTES >> 30} GiB: start the broker with 'processes = 3'"
            )
        self._env.set_mapsize(2 * int(self._env.info()["map_size"]))

    def _page_bytes(self) -> int:
        return int(self._env.stat()["psize"])

    def _extend(self) -> None:
        """Extend the file to the length that LMDB assumes: pages at its end may never be
        written."""
        file = self.path / TABLES
        wanted = (int(self._env.info()["last_pgno"]) + 1) * self._page_bytes()
        if file.stat().st_size < wanted:
            with file.open("r+b") as opened:
                opened.truncate(wanted)

    # ---- meta

    def position(self, txn: Transaction) -> tuple[int, bytes, int]:
        """Indexed LSN, hash of the block that ends there, and its time in microseconds.

        All zero if the index is empty. Raises IndexDamaged.
        """
        value = txn.get(POSITION_KEY, db=self.db(META))
        if value is None and txn.count(self.db(META)) < _META_ROWS:
            return 0, bytes(16), 0
        if value is None or len(value) != POSITION_VALUE.size:
            raise IndexDamaged(f"the index in {self.path} is damaged: its position is invalid")
        lsn, block_hash, time = POSITION_VALUE.unpack(value)
        return lsn, block_hash, time

    def set_position(self, txn: Transaction, lsn: int, block_hash: bytes, time: int) -> None:
        """Record up to which event everything is indexed; `time` is microseconds since 1970."""
        txn.put(POSITION_KEY, POSITION_VALUE.pack(lsn, block_hash, time), db=self.db(META))

    def set_data_id(self, txn: Transaction, data_id: bytes) -> None:
        """Record that the index belongs to another data directory: a fork of its own."""
        txn.put(DATA_ID_KEY, data_id, db=self.db(META))

    def data_id(self, txn: Transaction) -> bytes:
        """Id of the data directory that the index belongs to. Raises IndexDamaged."""
        value = txn.get(DATA_ID_KEY, db=self.db(META))
        if value is None:
            raise IndexDamaged(f"the index in {self.path} does not say which journal it is of")
        return value


def open_for_writing(path: Path, data_id: bytes, *, shared: bool = False) -> Tables:
    """Open the tables in a directory, or create them for the journal of `data_id` (16 bytes).

    With `shared` other threads may read while one writes; otherwise one thread may use them.
    Raises IndexDamaged (also for another format or journal) and IndexUnwritable.
    """
    with translated(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_new = not (path / TABLES).exists()
        env = _environment(path, readonly=False, least=SHARED_MAP_BYTES if shared else 0)
        tables = Tables(path, env, readonly=False, can_grow=not shared)
        if is_new:
            # Commits sync the file, but not its name: a power cut could lose the whole index.
            sync_directory(path)
            sync_directory(path.parent)
    try:
        tables.write(lambda txn: _begin(tables, txn, data_id))
    except BaseException:
        tables.close()
        raise
    return tables


def open_for_reading(path: Path, data_id: bytes | None = None) -> Tables:
    """Open the tables of another process to read them; `data_id` is the journal they must belong
    to.

    Raises IndexDamaged (also if there are none) and IndexUnwritable.
    """
    file = path / TABLES
    if not file.exists():
        raise IndexDamaged(f"there is no index in {path}")
    if not file.is_file() or not file.stat().st_size:
        raise IndexDamaged(f"the index in {path} is damaged: {TABLES} is not a file with tables")
    with translated(path):
        tables = Tables(path, _environment(path, readonly=True), readonly=True)
    try:
        with tables.read() as txn:
            _check(tables, txn, data_id)
    except BaseException:
        tables.close()
        raise
    return tables


def _environment(path: Path, *, readonly: bool, least: int = 0) -> lmdb.Environment:
    """Open the environment, with a map of `least` bytes or more."""
    file = path / TABLES
    size = file.stat().st_size if file.exists() else 0
    map_bytes = max(least, MAP_BYTES_MIN)
    while map_bytes < 2 * size:
        map_bytes *= 2
    if not readonly:
        _reserve_lock(path)
    env = _lmdb(path, map_bytes, readonly=readonly)
    try:
        env.reader_check()
        wanted = (int(env.info()["last_pgno"]) + 1) * int(env.stat()["psize"])
        length = file.stat().st_size
        if length < wanted:
            # Reading the missing part would end the process.
            raise IndexDamaged(
                f"the index in {path} is damaged: {TABLES} has {length} bytes of {wanted}"
            )
    except BaseException:
        env.close()
        raise
    return env


def _reserve_lock(path: Path) -> None:
    """Allocate LMDB's lock file. It is mapped: without disk space, a process that reads it dies."""
    descriptor = os.open(path / TABLES_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, LOCK_FILE_BYTES)
    finally:
        os.close(descriptor)


def _lmdb(path: Path, map_bytes: int, *, readonly: bool) -> lmdb.Environment:
    """Open the environment, with spare descriptors if there are no others."""
    while True:
        try:
            return lmdb.open(
                str(path),
                map_size=map_bytes,
                max_dbs=len(NAMES),
                readonly=readonly,
                create=not readonly,
                readahead=False,
                meminit=False,
                mode=0o600,
            )
        except lmdb.Error as error:
            out = any(os.strerror(number) in str(error) for number in OUT_OF_DESCRIPTORS)
            if not out or not SPARES.give():
                raise


def _begin(tables: Tables, txn: Transaction, data_id: bytes) -> None:
    """Write format and data id into new tables, or check them."""
    meta = tables.db(META)
    if not txn.count(meta):
        txn.put(FORMAT_KEY, _FORMAT_VALUE.pack(FORMAT), db=meta)
        txn.put(DATA_ID_KEY, data_id, db=meta)
    _check(tables, txn, data_id)


def _check(tables: Tables, txn: Transaction, data_id: bytes | None) -> None:
    meta = tables.db(META)
    row = txn.as_stored(FORMAT_KEY, db=meta)
    if row is None or len(row) == _FORMAT_VALUE.size:
        # From before rows had crcs.
        raise IndexDamaged(f"the index in {tables.path} is not of format {FORMAT}")
    if txn.get(FORMAT_KEY, db=meta) != _FORMAT_VALUE.pack(FORMAT):
        raise IndexDamaged(f"the index in {tables.path} is not of format {FORMAT}")
    found = tables.data_id(txn)
    if data_id is not None and found != data_id:
        raise IndexDamaged(
            f"the index in {tables.path} is of another journal: its id is {found.hex()}, not "
            f"{data_id.hex()}"
        )
