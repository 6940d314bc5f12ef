"""The newest message for each last value key of a queue, as far as the store does not know it.

Only the hash of each key is kept, as for the ids of messages (`engine.queues.id_cache`). Keys that
the store has are forgotten, so memory is bounded by the events that are not indexed. Without a
store all keys are here. Must never know where keys come from.
"""

from collections.abc import Container, Iterator
from typing import Final

LATEST_BYTES: Final = 320
"""The measured memory of a key."""
PRUNE_MIN: Final = 64


class Latest:
    """By the hash of a key: the newest message that has it, and the event that said so."""

    __slots__ = ("_known", "_most")

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[int, int]] = {}
        self._most = PRUNE_MIN

    def __len__(self) -> int:
        return len(self._known)

    @property
    def is_long(self) -> bool:
        """Whether something is to be forgotten, if possible."""
        return len(self._known) >= self._most

    def note(self, key: bytes, message_id: int, lsn: int) -> None:
        """Note that a message is the newest with a key from an event on."""
        self._known[key] = message_id, lsn

    def find(self, key: bytes) -> int:
        """Return the newest message with a key, 0 if it is not known here."""
        known = self._known.get(key)
        return known[0] if known is not None else 0

    def items(self) -> Iterator[tuple[bytes, int, int]]:
        """Iterate over keys, messages and events."""
        for key, (message_id, lsn) in self._known.items():
            yield key, message_id, lsn

    def clear(self) -> None:
        """Forget everything: the store has it."""
        self._known = {}
        self._most = PRUNE_MIN

    def forget_indexed(self, indexed_lsn: int) -> None:
        """Forget what the store has."""
        self._keep({key: known for key, known in self._known.items() if known[1] > indexed_lsn})

    def forget_gone(self, present: Container[int], oldest: int) -> None:
        """Forget messages that left, unless older ones than the event may still return.

        `present` are the messages of the queue, `oldest` is the first of those that may return.
        """
        self._keep(
            {
                key: known
                for key, known in self._known.items()
                if known[0] in present or known[1] > oldest
            }
        )

    def _keep(self, kept: dict[bytes, tuple[int, int]]) -> None:
        self._known = kept
        self._most = max(PRUNE_MIN, 2 * len(kept))
