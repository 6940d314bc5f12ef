"""Which followers keep up, and which ones must have what is confirmed.

With acks = "all" the arbiter keeps a list of nodes: each has everything that was confirmed, so each
may lead alone, and no other may. A follower that lags is taken off it, and is put on again when it
has caught up. With other acks the list is empty, for one that is not kept up to date would let
nodes lead that lack something; followers that lag are only told of.

Invariant: what is confirmed is on each node of each list that the arbiter may have. So a node that
is to come on the list counts before the list is written, one that is to leave it counts until that
is known to be written; and while the outcome of a write is not known, the nodes of both lists
count. The arbiter takes a list only in place of the one of a version, so one that has been read
again, or written, shuts out all that were under way. Must never know an arbiter, nor a connection.
"""

import enum
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, TypeAlias


class InSync(NamedTuple):
    """The nodes that are in sync, and the version of this list; version 0 if nobody wrote one."""

    nodes: tuple[str, ...] = ()
    version: int = 0


class Read(enum.Enum):
    """The list is to be read."""

    READ = enum.auto()


READ: Final = Read.READ
Step: TypeAlias = InSync | Read | None


class Follower:
    """How a follower keeps up. `since` is when the oldest event that it may owe was there; it has
    been `in_sync` or not from `changed` on."""

    def __init__(self, now: int) -> None:
        self.since = now
        self.changed = now
        self.in_sync = True
        self.has_joined = False
        # It has caught up if it takes little time until it has what the leader had just now.
        self.is_near = False
        self._target = 0

    def look(self, now: int, written: int, acked: int | None, near: int) -> None:
        """Note what it has acknowledged, None if it has not joined, of what the leader wrote."""
        self.has_joined = acked is not None
        if acked is None:
            self.is_near = False
        elif acked >= self._target:
            self.is_near = now - self.since <= near
            self.since, self._target = now, written

    def set_in_sync(self, now: int, *, in_sync: bool) -> bool:
        """Note whether it is in sync; return whether that is new."""
        if in_sync == self.in_sync:
            return False
        self.in_sync, self.changed = in_sync, now
        return True


class Progress:
    """All followers of a leader. `lag` is after how long one is not in sync any more."""

    def __init__(self, followers: Collection[str], lag: int, now: int) -> None:
        self.followers: Final = {name: Follower(now) for name in sorted(followers)}
        self.lag: Final = lag
        self._near: Final = lag // 10
        self._looked = now

    def look(self, now: int, written: int, acked: Mapping[str, int | None]) -> None:
        """Note what each has acknowledged; those that have not joined are left out."""
        # Followers are not to blame if this node stood still.
        pause, self._looked = max(0, now - self._looked - self._near), now
        for name, follower in self.followers.items():
            follower.since += pause
            follower.look(now, written, acked.get(name), self._near)

    @property
    def near(self) -> set[str]:
        """The followers that have caught up."""
        return {name for name, each in self.followers.items() if each.is_near}

    def lags(self, name: str, now: int) -> bool:
        """Return whether a follower owes something for too long."""
        return now - self.followers[name].since > self.lag

    def changes(self, now: int, listed: Collection[str] | None) -> list[tuple[str, bool]]:
        """Return which followers are in sync, or no more, since the last time: those of a list, or
        without one those that keep up."""
        found = []
        for name, each in self.followers.items():
            if listed is not None:
                in_sync = name in listed
            else:
                in_sync = not self.lags(name, now) and (each.in_sync or each.is_near)
            if each.set_in_sync(now, in_sync=in_sync):
                found.append((name, in_sync))
        return found


class ListOfNodes:
    """The list at the arbiter, as its leader knows it. `counted` are the nodes that must have what
    is confirmed; `step` returns what is to be done. It `is_kept` with acks = "all"."""

    def __init__(self, name: str, nodes: Collection[str], known: InSync, *, is_kept: bool) -> None:
        self.known = known
        self._name: Final = name
        self._nodes: Final = frozenset(nodes)
        self._is_kept: Final = is_kept
        self._unsure: list[frozenset[str]] = []
        self._joining: frozenset[str] = frozenset()
        self._taken_off: Final[dict[str, int]] = {}
        self._must_read = self._is_busy = False
        self._busy_until = 0

    @property
    def counted(self) -> frozenset[str]:
        """The nodes without which nothing is confirmed."""
        listed = frozenset(self.known.nodes) or self._nodes
        return listed.union({self._name}, self._joining, *self._unsure)

    @property
    def is_right(self) -> bool:
        """Whether something may be confirmed: if no list is kept, there must be none."""
        return self._is_kept or not (self.known.nodes or self._unsure)

    def step(self, now: int, progress: Progress, reached: Collection[str], pause: int) -> Step:
        """Return the list that is to be written, with the version that it replaces; or that the
        list is to be read; or None. `reached` are the followers that have all that is confirmed.
        What is not answered within a pause is repeated."""
        wanted = self._wanted(now, progress, reached) if self._is_kept else frozenset()
        if self._is_busy and now < self._busy_until:
            return None
        if not self._must_read and not self._unsure and wanted == frozenset(self.known.nodes):
            return None
        self._is_busy, self._busy_until = True, now + pause
        if self._must_read:
            return READ
        self._unsure.append(wanted)
        self._must_read = True
        return InSync(tuple(sorted(wanted)), self.known.version)

    def _wanted(self, now: int, progress: Progress, reached: Collection[str]) -> frozenset[str]:
        listed = self.known.nodes
        near = {name for name in progress.near if self._may_return(name, now, progress.lag)}
        self._joining = frozenset(near.difference(listed))
        lagging = {name for name in progress.followers if progress.lags(name, now)}
        found = {self._name, *near.intersection(reached), *listed} - lagging
        # A node may have left the configuration.
        found &= self._nodes
        if not listed and found | lagging != self._nodes:
            # The first list waits for those that have had no time to join.
            return frozenset()
        return frozenset(found)

    def _may_return(self, name: str, now: int, pause: int) -> bool:
        """Return whether it is long enough ago that a node was taken off the list."""
        return name not in self._taken_off or now - self._taken_off[name] >= pause

    def read(self, found: InSync, now: int) -> None:
        """Note what the list is, because it was read or written."""
        # One of the same version may still be replaced by what is under way.
        if found.version > self.known.version:
            for name in set(self.known.nodes).difference(found.nodes):
                self._taken_off[name] = now
            self.known = found
            self._unsure = []
        self._is_busy = self._must_read = False
