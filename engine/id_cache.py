"""The ids of messages that an address remembers: the last ones, as many as its id-cache-size.

Of an id its key is kept, 16 bytes of its SHA-256: so what an address remembers is bounded whatever
clients choose for ids, and two ids with one key will not be met by accident. Keys are numbered from
0 on in the order in which they came, for ever, so that they can be kept elsewhere piece by piece.
Must never know what an id is good for, or who gave it.
"""

from collections import deque
from hashlib import sha256
from itertools import islice
from typing import Final

KEY_BYTES: Final = 16


def key_of(duplicate_id: str) -> bytes:
    """Return the key of an id."""
    return sha256(duplicate_id.encode("utf-8", "surrogatepass")).digest()[:KEY_BYTES]


class IdCache:
    """Keys in the order in which they came; the oldest leave when there is no room."""

    __slots__ = ("_known", "_order", "recorded")

    def __init__(self) -> None:
        # How many keys ever came, which is the number of the next one.
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
        """Forget all keys; the numbers go on."""
        self._order.clear()
        self._known = {}

    def restore(self, recorded: int, keys: list[bytes]) -> None:
        """Become what it was when so many keys had come and these were remembered.

        Raises ValueError if that cannot have been.
        """
        self.recorded = recorded
        self._order = deque(keys)
        self._known = dict.fromkeys(keys)
        if not self.is_sound():
            raise ValueError("an id is remembered twice, or more ids than ever came")

    def is_sound(self) -> bool:
        """Whether what is looked up is what is listed, once each, and no more than ever came."""
        known = self._known
        listed = len(self._order) == len(known) and all(key in known for key in self._order)
        return listed and self.first >= 0

    def newest(self, count: int) -> list[bytes]:
        """Return the last `count` keys, or all there are, in their order."""
        found = list(islice(reversed(self._order), count))
        found.reverse()
        return found

    def joined(self) -> bytes:
        """Return all keys in their order, one behind the other."""
        return b"".join(self._order)
