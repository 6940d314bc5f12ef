"""Names of addresses and queues as arrays, to turn a column of ids into a column of names.

Must never know files. An id without a known name is shown as `#id`, as everywhere.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from daybook.pipeline.selection import SelectionError

IDS_MAX: Final = 1 << 24
"""Ids count up from 1; a table with a larger id is searched one by one."""


def encoded(places: NDArray[Any], texts: pa.Array) -> pa.DictionaryArray:
    """Make a dictionary-encoded array from positions in an array of texts."""
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32, copy=False)), texts)


class NameTable:
    """Names by id; can be pickled."""

    def __init__(self, names: Mapping[int, str]) -> None:
        ids = sorted(names)
        self.ids: Final = np.array(ids, np.int64)
        self.names: Final = [names[number] for number in ids]
        self._array: pa.Array | None = None
        self._places: NDArray[np.int32] = np.empty(0, np.int32)

    def __getstate__(self) -> tuple[NDArray[np.int64], list[str]]:
        return self.ids, self.names

    def __setstate__(self, state: tuple[NDArray[np.int64], list[str]]) -> None:
        object.__setattr__(self, "ids", state[0])
        object.__setattr__(self, "names", state[1])
        self._array = None
        self._places = np.empty(0, np.int32)

    def encoded(self, ids: NDArray[Any]) -> pa.DictionaryArray:
        """Return the names of ids, dictionary-encoded; null for 0."""
        if self._array is None:
            # The last entry is the null for id 0.
            self._array = pa.array([*self.names, None], pa.string())
            self._places = self._make_places()
        if not len(ids) or int(ids.max()) >= len(self._places):
            return self._named_one_by_one(ids)
        places = self._places[ids]
        if places.min() < 0:
            return self._named_one_by_one(ids)
        return encoded(places, self._array)

    def _make_places(self) -> NDArray[np.int32]:
        """Return the position of each id's name, -1 for unknown ids; empty if ids are too large."""
        top = int(self.ids[-1]) if len(self.ids) else 0
        places = np.full(top + 1 if top < IDS_MAX else 0, -1, np.int32)
        if len(places):
            places[self.ids] = np.arange(len(self.ids))
            places[0] = len(self.names)
        return places

    def _named_one_by_one(self, ids: NDArray[Any]) -> pa.DictionaryArray:
        by_id = dict(zip(self.ids.tolist(), self.names, strict=True))
        named = [by_id.get(number, f"#{number}") if number else None for number in ids.tolist()]
        return pa.array(named, pa.string()).dictionary_encode()

    def ids_of(self, names: tuple[str, ...], what: str) -> NDArray[np.int64]:
        """Return all ids that ever had these names; raises SelectionError for an unknown name."""
        unknown = sorted(set(names) - set(self.names))
        if unknown:
            close = get_close_matches(unknown[0], sorted(set(self.names)), n=1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            raise SelectionError(f"history has no {what} '{unknown[0]}'{hint}")
        chosen = set(names)
        places = [place for place, name in enumerate(self.names) if name in chosen]
        return self.ids[places]


class NameTables:
    """Names of addresses and of queues."""

    def __init__(self, addresses: Mapping[int, str], queues: Mapping[int, str]) -> None:
        self.addresses: Final = NameTable(addresses)
        self.queues: Final = NameTable(queues)


NO_NAMES: Final = NameTables({}, {})
