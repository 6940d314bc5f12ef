"""The public keys that a verification trusts: the given ones, and those that are linked with them
by changes of the key that both keys have signed (ADR 66).

A statement by another key proves nothing. Such statements are counted for each key, and reported
with the option that would prove them. Only reads.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from daybook.engine.facts.details import KeyChangeDetail
from daybook.recovery.signing.statements import Statement, change_message, key_id

SIGNATURES: Final = "signature up to"
ANCHORS: Final = "anchor of"


class TrustedKeys:
    """Keys (32 bytes each) that are trusted, by their ids. False if there are none."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys: Final = {key_id(key): key for key in keys}
        self._unknown: Final[dict[tuple[str, str], tuple[int, int, int]]] = {}

    def __bool__(self) -> bool:
        return bool(self._keys)

    @property
    def ids(self) -> list[str]:
        """The ids of all keys."""
        return sorted(self._keys)

    def link(self, data_id: str, changes: Iterable[tuple[str, KeyChangeDetail]]) -> list[str]:
        """Trust the keys that are linked with trusted ones, forwards and backwards.

        Each change comes with the place where it is recorded. Returns their faults.
        """
        sound, wrong = [], []
        for where, change in changes:
            if _is_mutual(data_id, change):
                sound.append((bytes.fromhex(change.old), bytes.fromhex(change.new)))
            else:
                wrong.append(f"{where}: the change of the key is not signed by both")
        grows = True
        while grows:
            grows = False
            for old, new in sound:
                linked = {key_id(old): old, key_id(new): new}
                if 0 < len(self._keys.keys() & linked.keys()) < len(linked):
                    self._keys.update(linked)
                    grows = True
        return wrong

    def has(self, statement: Statement) -> bool:
        """Return whether the key of a statement is trusted."""
        return statement.key in self._keys

    def knows(self, statement: Statement, what: str) -> bool:
        """Return whether the key of a statement is trusted; if not, `unknown` counts it.

        `what` is SIGNATURES or ANCHORS.
        """
        if self.has(statement):
            return True
        first, last, count = self._unknown.get((what, statement.key), (statement.lsn, 0, 0))
        first, last = min(first, statement.lsn), max(last, statement.lsn)
        self._unknown[what, statement.key] = first, last, count + 1
        return False

    def has_signed(self, statement: Statement) -> bool:
        """Return whether a trusted key has signed a statement."""
        # Slow to load, and only needed with a key.
        from daybook.recovery.signing.signing_keys import is_signed  # noqa: PLC0415

        public = self._keys.get(statement.key)
        return public is not None and is_signed(public, statement.signature, statement.message())

    def unknown(self) -> Iterator[str]:
        """Yield a sentence for each key of statements that is not trusted."""
        for (what, key), (first, last, count) in self._unknown.items():
            which = (
                f"the {what} event {first} is"
                if count == 1
                else f"{count:,} {what.replace(' ', 's ', 1)} events {first} to {last} are"
            )
            yield (
                f"{which} by the key {key or '(none)'}, which was not given and which no signed "
                f"change links with a given key, so it proves nothing: give its public key, "
                f"too, with --public-key"
            )


def _is_mutual(data_id: str, change: KeyChangeDetail) -> bool:
    """Return whether both keys have signed the change."""
    # Slow to load, and only needed with a key.
    from daybook.recovery.signing.signing_keys import is_signed  # noqa: PLC0415

    message = change_message(data_id, change)
    try:
        old, new = bytes.fromhex(change.old), bytes.fromhex(change.new)
    except ValueError:
        return False
    return is_signed(old, change.signature_old, message) and is_signed(
        new, change.signature_new, message
    )
