"""Records refusals for want of a permission in the journal, within limits.

A client decides how often it is refused, and with which names. So the journal gets the first
refusal of each user, address of peers, permission and destination in a minute, then one event with
the number of the others. Beyond the limits of `pools.DENIALS`, for all and for one user, they share
one number. While the disk is nearly full they are not written; refusals of that time are counted
afterwards. Must never know the rules.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from daybook.engine.commands import RecordDenial
from daybook.engine.settings.permissions import Denial
from daybook.server.process.logs import logger
from daybook.server.process.tally import Tally
from daybook.server.users.pools import DENIALS

HOLDERS_NAMED_MAX: Final = 10
"""How many roles and users a line of the log names."""
NAME_MAX: Final = 300
"""The maximum length of a recorded name, which the client chose."""

_Place: TypeAlias = tuple[str, str, str, str, str]

log = logger("denials")


class Denials:
    """Counts and records; `count` is the number of refusals since the start."""

    def __init__(self, record: Callable[[RecordDenial], None]) -> None:
        """`record` executes a command."""
        # Returns whom the missing permission is given to. Only the log names them: a client that
        # is refused must not learn the names of roles and users.
        self.holders: Callable[[Denial], Sequence[str]] = lambda _: ()
        self.count = 0
        self.is_disk_short = False
        self._record: Final = record
        self._tally: Final[Tally[_Place]] = Tally(
            int(DENIALS.of_all), share=(_user_of, int(DENIALS.of_user))
        )

    def take(self, denials: list[Denial], now: int) -> None:
        """Empty a list of refusals: count them, and record them within the limits."""
        taken = denials.copy()
        denials.clear()
        for each in taken:
            self.count += 1
            host = each.peer.rpartition(":")[0]
            address, queue = each.address[:NAME_MAX], each.queue[:NAME_MAX]
            place = each.user, host, each.permission, address, queue
            if self._tally.note(place, now, unheard=self.is_disk_short):
                log.warning(
                    "permission refused",
                    user=each.user, permission=each.permission, address=address,
                    queue=queue or None, peer=each.peer,
                    granted_to=", ".join(self.holders(each)[:HOLDERS_NAMED_MAX]) or "nobody",
                )  # fmt: skip
                self._record(
                    RecordDenial(
                        each.connection, each.user, each.permission, address, queue, each.peer
                    )
                )

    def tick(self, now: int) -> None:
        """Record the number of further refusals, once a minute and if the disk has space."""
        if self._tally.is_over(now):
            self.flush()

    def flush(self) -> None:
        """Record the number of further refusals now, if the disk has space."""
        if self.is_disk_short:
            return
        more, others = self._tally.take()
        for (user, host, permission, address, queue), count in more.items():
            self._record(RecordDenial(0, user, permission, address, queue, host, count))
        if others:
            self._record(RecordDenial(count=others))


def _user_of(place: _Place) -> str:
    return place[0]
