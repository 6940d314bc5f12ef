"""The ids of messages that an address remembers: the last ones, as many as its id-cache-size.

Only the key of each id is kept, 16 bytes of its SHA-256: so the memory of an address is bounded
however long the ids are that clients choose, and two ids will not share a key by accident. Keys are
numbered from 0 in the order in which they came, and numbers are never reused, so that keys can be
stored elsewhere piece by piece. Must never know what an id is for, or who sent it.
"""

from collections import deque
from collections.abc import Iterable
from hashlib import sha256
from itertools import islice
from typing import Final

KEY_BYTES: Final = 16


def key_of(duplicate_id: str) -> bytes:
    """Return the key of an id."""
    return sha256(duplicate_id.encode("utf-8", "surrogatepass")).digest()[:KEY_BYTES]


def keys_by_text(texts: Iterable[str]) -> dict[str, bytes]:
    """Return the key of each of these texts, computed once where many are the same."""
    return {text: key_of(text) for text in set(texts)}


class IdCache:
    """Keys in the order in which they came; the oldest leave when there is no room."""

    __slots__ = ("_known", "_order", "recorded")

    def __init__(self) -> None:
        # How many keys were ever added, which is the number of the next one.
        self.recorded: int = 0
        self._order: deque[bytes] = deque()
        # A dict where a set would do, because it takes three quarters of the memory.
        self._known: dict[bytes, None] = {}

    @property
    def count(self) -> int:
        """How many keys are remembered."""
        return len(self._order)

    @property
    def first(self) -> int:
        """Number of the oldest key that is remembered, `recorded` if there is none."""
        return self.recorded - len(self._order)

    def has(self, key: bytes) -> bool:
        """Whether a key is remembered."""
        return key in self._known

    def add(self, key: bytes, size: int) -> None:
        """Remember a key that is not remembered, and forget the oldest above `size`."""
        assert len(key) == KEY_BYTES and key not in self._known
        self.recorded += 1
        self._order.append(key)
        self._known[key] = None
        self.resize(size)

    def resize(self, size: int) -> None:
        """Forget the oldest keys until there are no more than `size`."""
        order = self._order
        while len(order) > size:
            del self._known[order.popleft()]

    def clear(self) -> None:
        """Forget all keys; numbering continues."""
        self._order.clear()
        self._known = {}

    def restore(self, recorded: int, keys: list[bytes]) -> None:
        """Restore the state in which so many keys had come and these were remembered.

        Raises ValueError if that state is impossible.
        """
        self.recorded = recorded
        self._order = deque(keys)
        self._known = dict.fromkeys(keys)
        if not self.is_sound():
            raise ValueError("an id is remembered twice, or more ids than ever came")

    def is_sound(self) -> bool:
        """Whether lookup and list have the same keys, once each, and no more than were ever
        added."""
        known = self._known
        listed = len(self._order) == len(known) and all(key in known for key in self._order)
        return listed and self.first >= 0

    def newest(self, count: int) -> list[bytes]:
        """Return the last `count` keys, or all there are, in their order."""
        found = list(islice(reversed(self._order), count))
        found.reverse()
        return found

    def joined(self) -> bytes:
        """Return all keys in their order, concatenated."""
        return b"".join(self._order)
