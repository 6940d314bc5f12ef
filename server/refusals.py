"""What the journal keeps of peers that were not let in: little, whatever they send and how often.

A stranger decides how often it is refused, and what it calls itself. So the journal gets the first
refusal of each address and reason in a minute, then one event that counts the others; addresses
beyond `ADDRESSES_MAX` share one count. While the disk is short nothing is written: what happened
meanwhile is counted afterwards. A login stays only if a user has that name. Of any other, which may
be a passcode typed into the wrong field, only its length and a short hash stay, under a key that
ends with the process: good for telling two attempts apart, and for nothing else.

It must never know sessions or the engine; the hub carries out the commands that it makes.
"""

import secrets
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from daybook.engine.commands import RefuseConnection
from daybook.server.tally import Tally

ADDRESSES_MAX: Final = 128
"""How many addresses and reasons have events of their own in a minute."""
TEXT_MAX: Final = 200
"""How much of a reason in words is kept; it may quote what the peer sent."""
HASH_BYTES: Final = 4


class Refusals:
    """Refused logins on their way to the journal.

    `is_known` tells whether a user has a name; `is_disk_short` is set while nothing may be written
    for strangers. `count` is how many there were since the start.
    """

    def __init__(self, record: Callable[[RefuseConnection], None]) -> None:
        """`record` carries out a command."""
        self.is_known: Callable[[str], bool] = _nobody
        self.is_disk_short = False
        self.count = 0
        self._record: Final = record
        self._key: Final = secrets.token_bytes(32)
        self._tally: Final[Tally[tuple[str, int]]] = Tally(ADDRESSES_MAX)

    def note(
        self, refusal: tuple[int, str, str, str], *, peer: str, address: str, now: int
    ) -> None:
        """Count a refusal (reason, protocol, login, text) of a peer, and record it or not."""
        reason, protocol, login, text = refusal
        self.count += 1
        is_first = self._tally.note((address, reason), now, unheard=self.is_disk_short)
        if is_first and not self.is_disk_short:
            # The text for the peer may quote its login.
            text = text.replace(login, "...") if login else text
            user = self.name_of(login)
            self._record(RefuseConnection(reason, protocol, peer, user, text[:TEXT_MAX]))

    def tick(self, now: int) -> None:
        """Record how many more there were, once a minute and if there is room."""
        if self._tally.is_over(now):
            self.flush()

    def flush(self) -> None:
        """Record how many more there were up to now, if there is room."""
        if self.is_disk_short:
            return
        more, others = self._tally.take()
        for (address, reason), count in more.items():
            self._record(RefuseConnection(reason, "", address, "", _more(count), count))
        if others:
            self._record(RefuseConnection(0, "", "", "", _more(others), others))

    def name_of(self, login: str) -> str:
        """A login as it may be kept: the name of a user, or what does not tell it."""
        if not login or self.is_known(login):
            return login
        digest = blake2b(login.encode("utf-8", "replace"), key=self._key, digest_size=HASH_BYTES)
        return f"unknown:{digest.hexdigest()} ({len(login)} characters)"


def _nobody(login: str) -> bool:
    """Know no user."""
    return False


def _more(count: int) -> str:
    return f"{count} more within a minute"
