"""Names of addresses and queues as arrays, so that a column of ids becomes one of names at once.

Must never know files. An id that history does not name is told as `#id`, as everywhere.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.selection import SelectionError


class NameTable:
    """Names by id; can be pickled."""

    def __init__(self, names: Mapping[int, str]) -> None:
        ids = sorted(names)
        self.ids: Final = np.array(ids, np.int64)
        self.names: Final = [names[number] for number in ids]
        self._array: pa.Array | None = None

    def __getstate__(self) -> tuple[NDArray[np.int64], list[str]]:
        return self.ids, self.names

    def __setstate__(self, state: tuple[NDArray[np.int64], list[str]]) -> None:
        object.__setattr__(self, "ids", state[0])
        object.__setattr__(self, "names", state[1])
        self._array = None

    def of(self, ids: NDArray[Any]) -> pa.Array:
        """Names of ids; null for 0."""
        if self._array is None:
            # The last one stands for none.
            self._array = pa.array([*self.names, None], pa.string())
        if not len(self.ids):
            return self._named_one_by_one(ids)
        wanted = ids.astype(np.int64)
        places = np.searchsorted(self.ids, wanted)
        np.minimum(places, len(self.ids) - 1, out=places)
        unknown = self.ids[places] != wanted
        if np.any(unknown & (wanted != 0)):
            return self._named_one_by_one(ids)
        places[unknown] = len(self.names)
        return self._array.take(pa.array(places))

    def _named_one_by_one(self, ids: NDArray[Any]) -> pa.Array:
        by_id = dict(zip(self.ids.tolist(), self.names, strict=True))
        named = [by_id.get(number, f"#{number}") if number else None for number in ids.tolist()]
        return pa.array(named, pa.string())

    def ids_of(self, names: tuple[str, ...], what: str) -> NDArray[np.int64]:
        """Ids that these names ever stood for; raises SelectionError for a name nobody had."""
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
