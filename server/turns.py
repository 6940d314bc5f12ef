"""Turns: who goes on in the next one, how much each may do in it, and how long they take (ADR 27).

All connections share one event loop, so whatever one of them asks for is done in slices, and others
come between. A slice is limited by units of work (`engine.budget`), so that it takes a few
milliseconds; a peer whose input is not used up by then is not read, and goes on in turn with the
others that wait. Fresh input of a peer that does not wait is looked at when it comes, however many
wait: whoever asks for little is served at once.

Must never know sockets.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from daybook.engine.broker import Broker
from daybook.engine.commands import Command, DeliverDue, ExpireDue
from daybook.engine.refusals import Refusal
from daybook.engine.timers import DELIVERY, EXPIRY
from daybook.server.peer import Peer

SLICE_UNITS: Final = 250
"""What is done for one peer, or for one piece of work, before others have their turn."""
SLICE_LEAST: Final = 50
"""What is done at least of fresh input, even if other fresh input used the turn up."""
TURN_UNITS: Final = 300
"""What a turn does of input, and as much again of work that goes on by itself."""
DELIVERY_UNITS: Final = 600
"""What a turn spends on deliveries."""

MINUTE_US: Final = 60_000_000
NS_PER_MS: Final = 1_000_000


def unmeasured() -> int:
    """Measure nothing: for tests and simulations, which know no real time."""
    return 0


Answer: TypeAlias = Callable[[int | Refusal], None]
"""Who is told how a command was answered."""


class Turns:
    """What goes on in the turns to come, and the measure of how long they take.

    `waiting` are peers whose input is not used up, `unfinished` commands of administrators of which
    a part is done; `scans` are the reasons (`engine.timers`) for which what is due is looked for,
    and `next_expiry` (microseconds) is when what expires is looked for again. `meter` gives
    nanoseconds of processor time of the thread.
    """

    def __init__(self, broker: Broker) -> None:
        self.meter: Callable[[], int] = unmeasured
        self.waiting: Final[dict[Peer, None]] = {}
        self.unfinished: Final[deque[tuple[Command, Answer | None]]] = deque()
        self.scans: Final[set[int]] = set()
        self.next_expiry = 0
        self._broker: Final = broker
        self._budget: Final = broker.budget
        budget = broker.budget
        self._input_limit = budget.spent + TURN_UNITS
        self._is_overspent = False
        self._longest_ns = 0
        self._minute_ns = 0
        self._minute_before_ns = 0
        self._minute_ends = 0

    def allow(self, units: int) -> None:
        """Limit what is done next."""
        self._budget.allow(units)

    def begin_input(self) -> int:
        """Limit what is done next to a slice of fresh input; return what `took` is to be given."""
        self.allow_input()
        return self.meter()

    def must_wait(self, peer: Peer) -> bool:
        """Whether a peer whose input was looked at just now is to wait for its next turn."""
        session = peer.session
        if session.is_blocked or session.closing:
            return False
        # Whoever used its slice up to the last unit may well send more at once.
        return session.has_more or self._budget.is_spent

    def wait(self, peer: Peer) -> None:
        """Read no more of a peer until its input is used up, a slice in each of its turns."""
        self.waiting[peer] = None
        peer.session.is_unheard = True
        peer.transport.pause_reading()

    def allow_input(self) -> None:
        """Limit what is done next to a slice of fresh input, and to what is left of the turn."""
        spent = self._budget.spent
        self._budget.limit = max(min(spent + SLICE_UNITS, self._input_limit), spent + SLICE_LEAST)

    def next_turn(self) -> None:
        """The turn is over: input may be looked at again."""
        self._input_limit = self._budget.spent + TURN_UNITS

    @property
    def has_work(self) -> bool:
        """Whether there is anything to go on with."""
        broker = self._broker
        return bool(
            self.waiting or broker.has_more or broker.pages_out or self.unfinished or self.scans
        )

    def go_on(
        self,
        now: int,
        proceed: Callable[[Peer], None],
        request: Callable[[Command, Answer | None], None],
    ) -> None:
        """Do a slice of each thing that took longer than one."""
        broker = self._broker
        if self.waiting:
            self._let_proceed(proceed)
        if broker.has_more:
            self.allow(TURN_UNITS)
            broker.go_on(now)
        if self.unfinished:
            request(*self.unfinished.popleft())
        if self.scans:
            self._scan(now)
        if broker.pages_out:
            self.allow(TURN_UNITS)
            broker.page_out_more()

    def tick(self, now: int, expiry_scan_us: int) -> None:
        """Begin to look for what may be due; for what expires, each period if that is positive."""
        if expiry_scan_us > 0 and now >= self.next_expiry:
            self.next_expiry = now + expiry_scan_us
            self.scans.add(EXPIRY)
        if self._broker.wakes(now):
            self.scans.add(DELIVERY)

    def _scan(self, now: int) -> None:
        """Look for what is due, a slice for each reason to look."""
        broker = self._broker
        if EXPIRY in self.scans:
            self.allow(SLICE_UNITS)
            broker.handle(ExpireDue(), now)
            if not broker.more_due:
                self.scans.remove(EXPIRY)
        if DELIVERY in self.scans:
            self.allow(SLICE_UNITS)
            broker.handle(DeliverDue(), now)
            if not broker.more_scheduled:
                self.scans.remove(DELIVERY)

    def _let_proceed(self, proceed: Callable[[Peer], None]) -> None:
        """Have peers that wait go on, one after the other, until the turn is used up.

        What cannot be cut, a message to very many queues for instance, may take far more than that:
        then those that do not wait have the next turn for themselves.
        """
        if self._is_overspent:
            self._is_overspent = False
            return
        end = self._budget.spent + TURN_UNITS
        while self.waiting and self._budget.spent < end:
            peer = next(iter(self.waiting))
            del self.waiting[peer]
            self._budget.limit = min(end, self._budget.spent + SLICE_UNITS // 2)
            proceed(peer)
        self._is_overspent = self._budget.spent - end >= TURN_UNITS // 2

    # ---- how long

    def took(self, begun: int, now: int) -> None:
        """Take in a piece of work that began when the meter showed `begun`."""
        taken = self.meter() - begun
        if taken <= self._minute_ns and now < self._minute_ends:
            return
        if now >= self._minute_ends:
            self._minute_before_ns = self._minute_ns if now < self._minute_ends + MINUTE_US else 0
            self._minute_ns = 0
            self._minute_ends = now + MINUTE_US
        self._minute_ns = max(self._minute_ns, taken)
        self._longest_ns = max(self._longest_ns, taken)

    def describe(self, now: int) -> dict[str, float | int]:
        """How long turns were, in milliseconds of processor time, and what goes on in the next."""
        recent = 0
        if now < self._minute_ends + MINUTE_US:
            recent = max(self._minute_ns, self._minute_before_ns)
        return {
            "turn_ms_longest": round(self._longest_ns / NS_PER_MS, 3),
            "turn_ms_longest_lately": round(recent / NS_PER_MS, 3),
            "peers_waiting_for_turn": len(self.waiting),
            "connections_being_closed": len(self._broker.closing),
            "queues_being_deleted": len(self._broker.emptying),
        }
