"""A lease in a file, for several nodes on one machine, and for tests.

The file has an id, the last epoch, its node, and until when it leads, and until when each name of
a node is used, by the clock of the machine since it was started, which all processes share, and
which also counts while they stand still. So a process that is stopped (SIGSTOP) or killed keeps the
lease until it runs out, as with etcd; a restart of the machine ends it. Each call locks a second
file (flock) and replaces the first, synced. A process that is stopped within a call keeps that
lock: until it continues or is killed, other calls fail by their time-out, nobody gets the lease,
and that of the leader runs out.

Fault model: the disk may hang, then calls fail by their time-out. A damaged file is refused.
Not for disks that several machines share: their clocks differ. Must never know an event.
"""

import asyncio
import fcntl
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from daybook.replication.arbiters.arbiter import ArbiterFault, Claim, Claimed, Holder
from daybook.replication.in_sync import InSync
from daybook.replication.node import Lease

Answer = TypeVar("Answer")

LOCK: Final = ".lock"
PART: Final = ".part"
BYTES_MAX: Final = 1 << 20
_POLL_SECONDS: Final = 0.005
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class _Used(msgspec.Struct, frozen=True):
    """The use of a name, until a time of a boot."""

    claim: Claim
    until: int
    boot: str


class _State(msgspec.Struct, frozen=True):
    """The content of the file. `until` is in microseconds since the start of the machine; the lease
    was given back if it is 0."""

    epoch: int = 0
    node: str = ""
    address: str = ""
    until: int = 0
    boot: str = ""
    in_sync: tuple[str, ...] = ()
    version: int = 0
    id: str = ""
    names: dict[str, _Used] = {}


def since_start() -> int:
    """Return the microseconds since the start of the machine, with those that it slept."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000


class FileArbiter:
    """Grants the lease of a file, for so many microseconds; `seconds` is the time-out of a call."""

    def __init__(
        self, path: Path, microseconds: int, seconds: float,
        clock: Callable[[], int] = since_start,
    ) -> None:  # fmt: skip
        self.place = f"the file {path}"
        self._path: Final = path
        self._microseconds: Final = microseconds
        self._seconds: Final = seconds
        self._clock: Final = clock
        self._boot: Final = _BOOT.read_text("ascii").strip()

    async def claim(self, node: str, claim: Claim) -> Claimed:
        """See Arbiter."""

        def work() -> Claimed:
            with self._locked():
                state = self._read()
                own = state.id or secrets.token_hex(8)
                used = state.names.get(node)
                if used is not None and used.claim != claim and self._lasts(used.boot, used.until):
                    return Claimed(own, used.claim)
                names = state.names | {node: _Used(claim, self._until(), self._boot)}
                self._write(msgspec.structs.replace(state, id=own, names=names))
                return Claimed(own, None)

        return await self._within_time(work)

    async def acquire(self, node: str, address: str, above: int) -> Lease | None:
        """See Arbiter."""

        def work() -> Lease | None:
            with self._locked():
                state = self._read()
                if self._is_held(state):
                    return None
                epoch = max(state.epoch, above) + 1
                self._write(
                    msgspec.structs.replace(
                        state, epoch=epoch, node=node, address=address, until=self._until(),
                        boot=self._boot,
                    )
                )  # fmt: skip
                return Lease(epoch, self._microseconds)

        return await self._within_time(work)

    async def renew(self, epoch: int) -> Lease | None:
        """See Arbiter."""

        def work() -> Lease | None:
            with self._locked():
                state = self._read()
                if state.epoch != epoch or not self._is_held(state):
                    return None
                self._write(msgspec.structs.replace(state, until=self._until()))
                return Lease(epoch, self._microseconds)

        return await self._within_time(work)

    async def release(self, epoch: int) -> None:
        """See Arbiter."""

        def work() -> None:
            with self._locked():
                state = self._read()
                if state.epoch == epoch and state.until:
                    self._write(msgspec.structs.replace(state, until=0))

        await self._within_time(work)

    async def holder(self) -> Holder | None:
        """See Arbiter."""

        def work() -> Holder | None:
            state = self._read()
            if not self._is_held(state):
                return None
            return Holder(state.node, state.address, state.epoch)

        return await self._within_time(work)

    async def in_sync(self) -> InSync:
        """See Arbiter."""

        def work() -> InSync:
            state = self._read()
            return InSync(state.in_sync, state.version)

        return await self._within_time(work)

    async def set_in_sync(self, epoch: int, nodes: tuple[str, ...], version: int) -> InSync | None:
        """See Arbiter."""

        def work() -> InSync | None:
            with self._locked():
                state = self._read()
                is_valid = state.epoch == epoch and self._is_held(state)
                if not is_valid or state.version != version:
                    return None
                self._write(msgspec.structs.replace(state, in_sync=nodes, version=version + 1))
                return InSync(nodes, version + 1)

        return await self._within_time(work)

    async def close(self) -> None:
        """See Arbiter."""

    async def _within_time(self, work: Callable[[], Answer]) -> Answer:
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.to_thread(work)
        except TimeoutError:
            text = f"{self._path}: no answer within {self._seconds:g} s; is a process stopped?"
            raise ArbiterFault(text) from None
        except OSError as error:
            raise ArbiterFault(
                f"the file of the lease, {self._path}, cannot be used: {error.strerror or error};"
                " 'path' of [replication] must be a file in a folder that exists"
            ) from None

    def _until(self) -> int:
        return self._clock() + self._microseconds

    def _is_held(self, state: _State) -> bool:
        return self._lasts(state.boot, state.until)

    def _lasts(self, boot: str, until: int) -> bool:
        return boot == self._boot and self._clock() < until

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock all other processes out. Raises TimeoutError, OSError."""
        ends = time.monotonic() + self._seconds
        descriptor = os.open(f"{self._path}{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _lock(descriptor):
                if time.monotonic() > ends:
                    raise TimeoutError
                time.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _read(self) -> _State:
        try:
            with self._path.open("rb") as file:
                content = file.read(BYTES_MAX)
        except FileNotFoundError:
            return _State()
        try:
            return msgspec.json.decode(content, type=_State)
        except msgspec.DecodeError as error:
            raise ArbiterFault(
                f"{self._path} is not a lease ({error}): stop all nodes and remove it; epochs"
                " continue behind those that the nodes know"
            ) from None

    def _write(self, state: _State) -> None:
        part = f"{self._path}{PART}"
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(state))
            file.flush()
            os.fsync(descriptor)
        Path(part).rename(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _lock(descriptor: int) -> bool:
    """Return whether nobody else has the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
