"""Those of very many objects that somebody may see: found in slices, since each costs a question
to the rules, and kept for a while.

Objects have ids, and those that come have larger ones. A kept list says which objects to look at,
never that they may be shown: rules are asked again for the rows of a page. Must never know the
rules.
"""

import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from daybook.server.process.slices import SLICE, Slices

ASKING_SECONDS: Final = 0.002
"""So long a slice asks whether somebody may see objects: a wildcard costs a look at many rules.
Longer than threads wait for the interpreter (`server.history.data_directory_session`)."""
KEPT_SECONDS: Final = 10.0
"""So long the objects that were found are taken again; a change of one shows after that."""
KEPT_WORDS_MAX: Final = 1_000_000
"""All that is kept takes so many words of eight bytes at most."""


class Numbered(Protocol):
    """An object with an id."""

    @property
    def id(self) -> int:
        """The id."""
        ...


_T = TypeVar("_T", bound=Numbered)


class Found(msgspec.Struct, Generic[_T]):
    """The objects that were found among those with ids up to `last`, and when that began."""

    objects: list[_T]
    last: int
    begun: float


class KeptSights:
    """The objects that were found lately, by a key for each list and each set of rights."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock: Final = clock
        self._kept: Final[list[tuple[object, Found[Numbered]]]] = []

    def found(self, key: object) -> Found[Numbered]:
        """Return the objects that were found for a key lately, none yet if that is too long ago."""
        self.drop_old()
        for known, found in self._kept:
            if known == key:
                return found
        return Found([], 0, self._clock())

    def keep(self, key: object, found: Found[Numbered]) -> None:
        """Keep these objects, unless they are too many; those that are kept longest make room."""
        self._kept[:] = [each for each in self._kept if each[0] != key]
        self._kept.append((key, found))
        while sum(len(each.objects) for _, each in self._kept) > KEPT_WORDS_MAX:
            del self._kept[0]

    def drop_old(self) -> None:
        """Drop the objects that were found too long ago."""
        before = self._clock() - KEPT_SECONDS
        self._kept[:] = [each for each in self._kept if each[1].begun >= before]


class Seen(Generic[_T]):
    """Those of many objects, by their ids, that somebody may see: all of them without `may`."""

    def __init__(
        self,
        every: dict[int, _T],
        may: Callable[[_T], bool] | None = None,
        key: object = None,
        kept: KeptSights | None = None,
    ) -> None:
        """`key` tells the list, and the rights that `may` asks, from others."""
        self._every: Final = every
        self._may: Final = may
        self._key: Final = key
        self._kept: Final = kept if kept is not None else KeptSights()

    @property
    def is_everything(self) -> bool:
        """Whether all objects may be seen, also those that were there."""
        return self._may is None

    def has(self, one: _T) -> bool:
        """Whether an object is there, and may be seen, at this moment."""
        return self._every.get(one.id) is one and (self._may is None or self._may(one))

    def all(self) -> Slices[Sequence[_T]]:
        """Return those that are there, and that may be seen."""
        if self._may is None:
            return list(self._every.values())
        found = self._kept.found(self._key)
        before: list[_T] = found.objects  # type: ignore[assignment]
        ids = takewhile(found.last.__lt__, reversed(self._every))
        new = [self._every[each] for each in ids]
        new.reverse()
        last = max((each.id for each in new), default=found.last)
        there = yield from self._still_there(before)
        there += yield from self.of(new)
        self._kept.keep(self._key, Found([*there], last, found.begun))
        return there

    def of(self, objects: Sequence[_T]) -> Slices[Sequence[_T]]:
        """Return those of some that may be seen."""
        if self._may is None:
            return objects
        found: list[_T] = []
        ends = time.perf_counter() + ASKING_SECONDS
        for each in objects:
            now = time.perf_counter()
            if now >= ends:
                yield SLICE
                ends = now + ASKING_SECONDS
            if self._may(each):
                found.append(each)
        return found

    def _still_there(self, objects: Sequence[_T]) -> Slices[list[_T]]:
        found: list[_T] = []
        for start in range(0, len(objects), SLICE):
            some = objects[start : start + SLICE]
            found += [each for each in some if self._every.get(each.id) is each]
            yield len(some)
        return found
