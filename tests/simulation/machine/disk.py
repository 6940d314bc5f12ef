"""A simulated disk with a volatile cache, driven by an integer seed.

Fault model. Reads see every write at once. A power cut (`crash`) keeps
- everything that an `fdatasync` of the file covered; of later writes, any subset of their 512-byte
  sectors, each sector old or new as a whole, in any order across writes; a sector written twice
  may keep either version;
- with `collateral_bytes` less than that: in each device block of that size that was being written,
  what the write did not cover may become garbage, durable or not;
- of later changes of a file's size (truncate, allocate, writes behind the end), the first few;
- all names that a `sync_directory` covered; of later creations, renames and removals, any subset.
  A name that is durable may belong to a file whose content is not.
Calls fail as `Faults` says, by chance, or as told by `fail_next`: writes may be short or end in EIO
half-way; a failed fdatasync drops some of what it should have written, for good, while reads go on
to see it; allocation beyond `capacity_bytes` is ENOSPC; `flip` turns a bit of what is durable and
cached; while `refuses_opens` is an errno no file can be opened. `crash_after(n)` cuts the power in
the middle of the n-th call that changes anything: PowerCut is raised, also by all later calls on
that disk.
"""

import errno
import os
import random
from collections.abc import Callable
from typing import Final

import msgspec

from daybook.tools.drills.disks.fault_model import SECTOR_BYTES


class PowerCut(Exception):
    """The power was cut; only the disk that `crash` gives can be used now."""


class Faults(msgspec.Struct, frozen=True):
    """How likely it is, for each call, that it goes wrong: from 0 to 1."""

    short_write: float = 0.0
    write_error: float = 0.0
    sync_error: float = 0.0
    read_error: float = 0.0


NO_FAULTS: Final = Faults()


class _Inode:
    """A file: what reads see, what survives, and what happened since the last sync."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = bytearray()
        self.sizes: list[int] = []
        self.dirty: dict[int, list[bytes]] = {}
        self.written: list[tuple[int, int]] = []

    def resize(self, size: int) -> None:
        """Cut, or extend with zeros."""
        if size < len(self.content):
            for sector in [s for s in self.dirty if s * SECTOR_BYTES >= size]:
                del self.dirty[sector]
            del self.content[size:]
            border = size // SECTOR_BYTES
            if border in self.dirty:
                self.dirty[border].append(bytes(self.content[border * SECTOR_BYTES :]))
        else:
            self.content.extend(bytes(size - len(self.content)))
        self.sizes.append(size)

    def write(self, data: bytes, offset: int) -> None:
        """Write into the cache, and remember each version of the sectors touched."""
        end = offset + len(data)
        if end > len(self.content):
            self.resize(end)
        self.content[offset:end] = data
        if data:
            self.written.append((offset, end))
        for sector in range(offset // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            start = sector * SECTOR_BYTES
            version = bytes(self.content[start : start + SECTOR_BYTES])
            self.dirty.setdefault(sector, []).append(version)

    def sync(self) -> None:
        """Make everything durable, except for what an earlier failed sync has dropped."""
        self._settle(lambda versions: versions[-1], len(self.sizes))

    def forget(self) -> None:
        """Read clean sectors from the platter again."""
        size = min(len(self.content), len(self.durable))
        for start in range(0, size, SECTOR_BYTES):
            if start // SECTOR_BYTES not in self.dirty:
                end = min(start + SECTOR_BYTES, size)
                self.content[start:end] = self.durable[start:end]

    def drop(self, chance: random.Random) -> None:
        """A sync failed: some sectors got through, the others are clean now and never will.

        The size is remembered elsewhere: the next sync that succeeds makes it durable.
        """
        self.survive(chance)
        self.sizes.append(len(self.content))

    def survive(self, chance: random.Random) -> None:
        """The durable writes after a power cut: any subset."""
        mode = chance.randrange(4)

        def choose(versions: list[bytes]) -> bytes | None:
            if mode == 0 or (mode == 2 and chance.random() < 0.5):
                return None
            return versions[-1] if mode == 1 else chance.choice(versions)

        kept = len(self.sizes) if mode == 1 else chance.randint(0, len(self.sizes))
        self._settle(choose, kept)

    def _settle(self, choose: Callable[[list[bytes]], bytes | None], sizes_kept: int) -> None:
        for size in self.sizes[:sizes_kept]:
            del self.durable[size:]
            self.durable.extend(bytes(size - len(self.durable)))
        for sector, versions in sorted(self.dirty.items()):
            start = sector * SECTOR_BYTES
            version = choose(versions)
            if version is not None:
                room = max(0, len(self.durable) - start)
                self.durable[start : start + len(version)] = version[:room]
        self.dirty.clear()
        self.sizes.clear()
        self.written.clear()

    def spoil(self, chance: random.Random, block_bytes: int) -> None:
        """Perhaps make garbage of what a write in flight did not write of its device blocks."""
        written = self.written
        blocks = {
            offset // block_bytes for start, end in written for offset in (start, end - 1)
        }  # fmt: skip
        for block in sorted(blocks):
            if chance.random() < 0.5:
                continue
            first = block * block_bytes
            for offset in range(first, min(first + block_bytes, len(self.durable))):
                if not any(start <= offset < end for start, end in written):
                    self.durable[offset] = chance.randrange(256)

    def after_crash(self) -> "_Inode":
        """The file as it is found when the power is back."""
        inode = _Inode()
        inode.content = bytearray(self.durable)
        inode.durable = bytearray(self.durable)
        return inode


class _Change(msgspec.Struct, frozen=True):
    """A change of the directory that is not durable: `name` leads to `inode`, or to nothing."""

    name: str
    inode: _Inode | None
    old_name: str = ""


class FaultyFile:
    """An open file of a FaultyDisk."""

    def __init__(self, disk: "FaultyDisk", inode: _Inode, name: str) -> None:
        self._disk = disk
        self._inode = inode
        self._name = name

    def pread(self, count: int, offset: int) -> bytes:
        """Read up to `count` bytes of what was written last."""
        self._disk.check_power()
        self._disk.may_fail("pread", self._disk.faults.read_error, self._name)
        return bytes(memoryview(self._inode.content)[offset : offset + count])

    def pwrite(self, data: bytes, offset: int) -> int:
        """Write into the cache; may be short, or fail half-way."""
        disk = self._disk
        cut = disk.step("pwrite")
        half = disk.chance.randint(0, len(data))
        if cut:
            self._inode.write(data[:half], offset)
            disk.lose_power()
        try:
            disk.may_fail("pwrite", disk.faults.write_error, self._name)
        except OSError:
            self._inode.write(data[:half], offset)
            raise
        if half and disk.chance.random() < disk.faults.short_write:
            data = data[:half]
        self._inode.write(data, offset)
        return len(data)

    def fdatasync(self) -> None:
        """Make everything written durable; when it fails, what it dropped is dropped for good."""
        disk = self._disk
        if disk.step("fdatasync"):
            if disk.chance.random() < 0.5:
                self._inode.sync()
            disk.lose_power()
        try:
            disk.may_fail("fdatasync", disk.faults.sync_error, self._name)
        except OSError:
            self._inode.drop(disk.chance)
            raise
        self._inode.sync()

    def forget(self) -> None:
        """Have reads see what is durable wherever nothing was written since the last sync.

        After a sync that failed this shows what it dropped.
        """
        self._disk.check_power()
        self._inode.forget()

    def truncate(self, size: int) -> None:
        """Change the size."""
        cut = self._disk.step("truncate")
        self._disk.may_fail("truncate", 0.0, self._name)
        self._inode.resize(size)
        if cut:
            self._disk.lose_power()

    def allocate(self, size: int) -> None:
        """Extend with zeros; ENOSPC beyond the capacity."""
        disk = self._disk
        cut = disk.step("allocate")
        disk.may_fail("allocate", 0.0, self._name)
        missing = size - len(self._inode.content)
        if missing > 0:
            disk.take_room(missing, self._name)
            self._inode.resize(size)
        if cut:
            disk.lose_power()

    def size(self) -> int:
        """Size as the last change left it."""
        self._disk.check_power()
        return len(self._inode.content)

    def links(self) -> int:
        """Always one: nobody else can delete it."""
        return 1

    def close(self) -> None:
        """Do nothing; unsynced writes stay unsynced."""


class FaultyDisk:
    """A directory on the simulated disk; see the module for what can go wrong.

    `calls` counts the calls that change anything. `capacity_bytes` may be changed at any time.
    """

    def __init__(
        self,
        seed: int,
        *,
        faults: Faults = NO_FAULTS,
        capacity_bytes: int | None = None,
        collateral_bytes: int = 0,
    ) -> None:
        self.seed: Final = seed
        self.chance: Final = random.Random(seed)
        self.faults = faults
        self.capacity_bytes = capacity_bytes
        self.collateral_bytes = collateral_bytes
        self.calls = 0
        self.failed_reads = 0
        self.refuses_opens = 0
        self.dead = False
        self._crash_at = 0
        self._files: dict[str, _Inode] = {}
        self._durable_names: dict[str, _Inode] = {}
        self._changes: list[_Change] = []
        self._planned: dict[str, list[int]] = {}

    def crash_after(self, calls: int) -> None:
        """Cut the power within the call that is so many changing calls from now (1: the next)."""
        assert calls >= 1
        self._crash_at = self.calls + calls

    def fail_next(self, call: str, number: int = errno.EIO) -> None:
        """Let the next call of this name (`pwrite`, `fdatasync`, ...) fail with an errno."""
        self._planned.setdefault(call, []).append(number)

    def crash(self) -> "FaultyDisk":
        """Cut the power; answers the disk as it is found afterwards, with the same faults."""
        self.dead = True
        disk = FaultyDisk(
            self.chance.getrandbits(32), faults=self.faults, capacity_bytes=self.capacity_bytes,
            collateral_bytes=self.collateral_bytes,
        )  # fmt: skip
        names = dict(self._durable_names)
        keep = self.chance.random()
        for change in self._changes:
            if self.chance.random() < keep:
                _apply(names, change)
        survivors: dict[int, _Inode] = {}
        for inode in names.values():
            if id(inode) not in survivors:
                if self.collateral_bytes:
                    inode.spoil(self.chance, self.collateral_bytes)
                inode.survive(self.chance)
                survivors[id(inode)] = inode.after_crash()
        disk._files = {name: survivors[id(inode)] for name, inode in names.items()}
        disk._durable_names = dict(disk._files)
        return disk

    def survive_kill(self) -> None:
        """Continue after a kill of the process alone: the cache survives, planned faults do not."""
        self.dead = False
        self.refuses_opens = 0
        self._crash_at = 0
        self._planned.clear()

    def durable_files(self) -> dict[str, bytearray]:
        """Return the files that would certainly survive a power cut now, by name. Only for
        reading."""
        return {name: inode.durable for name, inode in self._durable_names.items()}

    def has(self, name: str) -> bool:
        """Whether a file of this name exists, also while the machine has no power."""
        return name in self._files

    def flip(self, name: str, bit: int) -> None:
        """Turn one bit of a file, in the cache and on the platter: bit rot."""
        inode = self._files[name]
        for content in (inode.content, inode.durable):
            if bit // 8 < len(content):
                content[bit // 8] ^= 1 << (bit % 8)

    def open(self, name: str) -> FaultyFile:
        """Open an existing file; FileNotFoundError if there is none."""
        self.check_power()
        self._may_refuse(name)
        return FaultyFile(self, self._existing(name), name)

    def open_for_writing(self, name: str) -> FaultyFile:
        """Open a file for writing, creating it if need be."""
        self.check_power()
        self._may_refuse(name)
        if name not in self._files:
            self._change("create", _Change(name, _Inode()))
        return FaultyFile(self, self._files[name], name)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name; atomic."""
        self._change("rename", _Change(new, self._existing(old), old))

    def remove(self, name: str) -> None:
        """Remove a name."""
        self._existing(name)
        self._change("remove", _Change(name, None))

    def names(self) -> list[str]:
        """Names of all files, sorted."""
        self.check_power()
        return sorted(self._files)

    def sync_directory(self) -> None:
        """Make all names durable."""
        if self.step("sync_directory"):
            self.lose_power()
        self.may_fail("sync_directory", self.faults.sync_error, "the directory")
        self._durable_names = dict(self._files)
        self._changes.clear()

    def used_bytes(self) -> int:
        """Room that the files take."""
        return sum(len(inode.content) for inode in self._files.values())

    def take_room(self, count: int, name: str) -> None:
        """Raise ENOSPC if there is no room for so many more bytes."""
        if self.capacity_bytes is not None and self.used_bytes() + count > self.capacity_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

    def step(self, call: str) -> bool:
        """Count a changing call; answers whether the power is to be cut within it."""
        self.check_power()
        assert call
        self.calls += 1
        return self.calls == self._crash_at

    def check_power(self) -> None:
        """Raise PowerCut if there is none."""
        if self.dead:
            raise PowerCut

    def lose_power(self) -> None:
        """Cut the power now."""
        self.dead = True
        raise PowerCut

    def may_fail(self, call: str, likelihood: float, name: str) -> None:
        """Raise OSError if the call is planned to fail, or by chance."""
        planned = self._planned.get(call)
        if planned:
            number = planned.pop(0)
            self.failed_reads += call == "pread"
            raise OSError(number, os.strerror(number), name)
        if likelihood and self.chance.random() < likelihood:
            self.failed_reads += call == "pread"
            raise OSError(errno.EIO, os.strerror(errno.EIO), name)

    def _may_refuse(self, name: str) -> None:
        if self.refuses_opens:
            raise OSError(self.refuses_opens, os.strerror(self.refuses_opens), name)

    def _change(self, call: str, change: _Change) -> None:
        cut = self.step(call)
        self.may_fail(call, 0.0, change.name)
        self._changes.append(change)
        _apply(self._files, change)
        if cut:
            self.lose_power()

    def _existing(self, name: str) -> _Inode:
        inode = self._files.get(name)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return inode


def _apply(names: dict[str, _Inode], change: _Change) -> None:
    """Make a change of the directory; one whose file never came to be does nothing."""
    if change.inode is None:
        names.pop(change.name, None)
    elif not change.old_name:
        names[change.name] = change.inode
    elif names.get(change.old_name) is change.inode:
        del names[change.old_name]
        names[change.name] = change.inode
