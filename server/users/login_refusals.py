"""Records refused logins in the journal, with a limit on their number and content.

A stranger decides how often it is refused, and which login it sends. So the journal gets the first
refusal of each address and reason in a minute, then one event with the count of the others;
addresses beyond `ADDRESSES_MAX` share one count. While the disk is nearly full they are not
written; refusals of that time are counted afterwards. A login is kept only if it is the name of a
user. For any other, which may be a passcode typed into the wrong field, only its length and a short
hash are kept; the hash has a random key of this process, so it only shows whether two attempts are
equal.

It must never know sessions or the engine; the hub carries out the commands that it makes.
"""

import secrets
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from daybook.engine.commands import RecordDenial, RefuseConnection
from daybook.server.process.tally import Tally
from daybook.server.users.denials import Denials

ADDRESSES_MAX: Final = 128
"""How many pairs of address and reason get their own events in a minute."""
TEXT_MAX: Final = 200
"""The maximum length of a reason's text, which may quote the peer's input."""
HASH_BYTES: Final = 4


class Refusals:
    """Counts refused logins and records them.

    `is_known` returns whether there is a user of that name; `is_disk_short` is set while nothing
    may be written for strangers. `count` is the number of refusals since the start. `denials` are
    refusals of users for want of a permission, recorded with the same rhythm.
    """

    def __init__(self, record: Callable[[RefuseConnection | RecordDenial], None]) -> None:
        """`record` executes a command."""
        self.is_known: Callable[[str], bool] = _nobody
        self.denials: Final = Denials(record)
        self._is_disk_short = False
        self.count = 0
        self._record: Final = record
        self._key: Final = secrets.token_bytes(32)
        self._tally: Final[Tally[tuple[str, int]]] = Tally(ADDRESSES_MAX)

    @property
    def is_disk_short(self) -> bool:
        """Whether refusals of strangers and users may not be written now."""
        return self._is_disk_short

    @is_disk_short.setter
    def is_disk_short(self, value: bool) -> None:
        self._is_disk_short = self.denials.is_disk_short = value

    def note(
        self, refusal: tuple[int, str, str, str], *, peer: str, address: str, now: int
    ) -> None:
        """Count a refusal (reason, protocol, login, text); record it within the limits."""
        reason, protocol, login, text = refusal
        self.count += 1
        is_first = self._tally.note((address, reason), now, unheard=self.is_disk_short)
        if is_first and not self.is_disk_short:
            # The text for the peer may quote its login.
            text = text.replace(login, "...") if login else text
            user = self.name_of(login)
            self._record(RefuseConnection(reason, protocol, peer, user, text[:TEXT_MAX]))

    def counts(self) -> dict[str, int]:
        """Return the refusals since the start, for `daybook status`."""
        return {"refusals": self.count, "denials": self.denials.count}

    def tick(self, now: int) -> None:
        """Record the number of further refusals, once a minute and if the disk has space."""
        self.denials.tick(now)
        if self._tally.is_over(now):
            self._flush()

    def flush(self) -> None:
        """Record the number of further refusals now, if the disk has space."""
        self.denials.flush()
        self._flush()

    def _flush(self) -> None:
        if self.is_disk_short:
            return
        more, others = self._tally.take()
        for (address, reason), count in more.items():
            self._record(RefuseConnection(reason, "", address, "", _more(count), count))
        if others:
            self._record(RefuseConnection(0, "", "", "", _more(others), others))

    def name_of(self, login: str) -> str:
        """Return a login in a form that may be kept: the name of a user, or length and hash."""
        if not login or self.is_known(login):
            return login
        digest = blake2b(login.encode("utf-8", "replace"), key=self._key, digest_size=HASH_BYTES)
        return f"unknown:{digest.hexdigest()} ({len(login)} characters)"


def _nobody(login: str) -> bool:
    """Know no user."""
    return False


def _more(count: int) -> str:
    return f"{count} more within a minute"
