"""Turns: which peers continue in the next one, how much work each may do, and turn times (ADR 27).

All connections share one event loop, so the work for each is done in slices, with others in
between. A slice is limited by units of work (`engine.limits.budget`), so that it takes a few
milliseconds; a peer with remaining input is not read, and continues in turn with the others that
wait. New input of a peer that does not wait is processed when it arrives, however many wait, so a
peer with little work is served at once.

Must never know sockets.
"""

import gc
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from daybook.engine.broker import Broker
from daybook.engine.commands import Command, DeleteUnused, DeliverDue, ExpireDue
from daybook.engine.refusals import Refusal
from daybook.engine.state.timers import DELIVERY, EXPIRY
from daybook.server.hub.peer import Peer
from daybook.server.hub.ports import HubOptions
from daybook.server.hub.turn_lengths import TurnLengths

NAMES: Final = -1
"""The scan for unused names, beside the reasons of timers."""

SCANS_A_TICK: Final = 8
"""The number of slices of a scan in each tick while the index is far behind."""
NAME_SLICES_A_TICK: Final = 2
"""The number of slices of a scan for unused names in each tick: nobody waits for it, and clients
that ask for a list wait for each of them."""
COLLECT_UNITS: Final = 4000
"""After so much work the garbage collector looks at new objects. By itself it waits until many more
objects were made than freed, so with a backlog of constant size it would find a hundred
thousand."""

MINUTE_US: Final = 60_000_000
NS_PER_MS: Final = 1_000_000


def unmeasured() -> int:
    """Return 0: for tests and simulations, which have no real time."""
    return 0


Answer: TypeAlias = Callable[[int | Refusal], None]
"""The callback with the answer to a command."""


class Turns:
    """The work of the next turns, and the measurement of turn times.

    `waiting` are peers with remaining input or unfinished commands, `unfinished` are commands of
    administrators that are partly done; `scans` are the reasons (`engine.state.timers`) for a
    search for due entries, and `next_expiry` (microseconds) is the time of the next search for
    expired ones, `next_name_scan` that of the next search for unused names, 0 before the first
    tick. `meter` returns nanoseconds of processor time of the thread.
    """

    def __init__(self, broker: Broker) -> None:
        self.meter: Callable[[], int] = unmeasured
        self.waiting: Final[dict[Peer, None]] = {}
        self.unfinished: Final[deque[tuple[Command, Answer | None]]] = deque()
        self.scans: Final[set[int]] = set()
        self.next_expiry = 0
        self.next_name_scan = 0
        # Whether the index is so far behind that work which nobody waits for must not add much to
        # it.
        self.is_pressed = False
        self._may_go_on = True
        self._scans_left = SCANS_A_TICK
        self._names_left = NAME_SLICES_A_TICK
        self._collected = broker.budget.spent
        self._broker: Final = broker
        self._budget: Final = broker.budget
        budget = broker.budget
        self.lengths: Final = TurnLengths()
        self._input_limit = budget.spent + self.lengths.turn
        self._input_begun = budget.spent
        self._is_left_over = False
        self._is_overspent = False
        self._longest_ns = 0
        self._minute_ns = 0
        self._minute_before_ns = 0
        self._minute_ends = 0

    def allow(self, units: int) -> None:
        """Limit the next work."""
        self._budget.allow(units)

    def begin_input(self) -> int:
        """Limit the next work to a slice of new input; return the begin to pass to `took`."""
        self.allow_input()
        self._input_begun = self._budget.spent
        return self.meter()

    def heard(self, peer: Peer, now: int) -> None:
        """Count what new input took; turns become short if a light peer waits for others."""
        is_light = peer.usage.add(self._budget.spent - self._input_begun, now)
        if is_light and self._is_left_over and not peer.session.has_more:
            self.lengths.shorten(now)

    def must_wait(self, peer: Peer) -> bool:
        """Return whether a peer whose input was just processed must wait for its next turn."""
        session = peer.session
        if session.is_blocked or session.closing:
            return False
        # A peer that used up its whole slice will probably send more at once.
        return session.has_more or self._budget.is_spent

    def wait(self, peer: Peer) -> None:
        """Stop reading from a peer until its input is processed, a slice in each of its turns."""
        self.waiting[peer] = None
        peer.session.is_unheard = True
        peer.transport.pause_reading()

    def let_finish(self, peer: Peer) -> None:
        """Give a peer a turn for its unfinished commands; meanwhile it is read."""
        self.waiting[peer] = None

    def allow_input(self) -> None:
        """Limit the next work to a slice of new input, and to the rest of the turn."""
        spent = self._budget.spent
        most = min(spent + self.lengths.slice, self._input_limit)
        self._budget.limit = max(most, spent + self.lengths.least)

    def next_turn(self, *, is_left_over: bool) -> None:
        """End the turn: new input may be processed again, beside what is left over."""
        spent = self._budget.spent
        if spent - self._collected >= COLLECT_UNITS:
            self._collected = spent
            gc.collect(0)
        self._is_left_over = is_left_over
        self._input_limit = spent + self.lengths.turn

    @property
    def has_work(self) -> bool:
        """Whether there is unfinished work."""
        broker = self._broker
        return bool(
            self.waiting
            or broker.pages_out
            or self.unfinished
            or (self.scans and self._may_scan)
            or (self._continues and broker.has_more)
        )

    @property
    def _may_scan(self) -> bool:
        """Whether a scan may continue; it adds events."""
        if not self._names_left and len(self.scans) == 1 and NAMES in self.scans:
            return False
        return self._scans_left > 0 or not self.is_pressed

    @property
    def _continues(self) -> bool:
        """Whether work without commands may continue. A message on its way adds no events."""
        return self._may_go_on or not self.is_pressed or bool(self._broker.state.arrivals)

    def go_on(
        self,
        now: int,
        proceed: Callable[[Peer], None],
        request: Callable[[Command, Answer | None], None],
    ) -> None:
        """Do a slice of each unfinished piece of work."""
        broker = self._broker
        if self.waiting:
            self._let_proceed(proceed, now)
        if self._continues and broker.has_more:
            # While the index is far behind: a slice for each tick.
            self._may_go_on = False
            self.allow(self.lengths.turn)
            broker.go_on(now)
        if self.unfinished:
            request(*self.unfinished.popleft())
        if self.scans and self._may_scan:
            self._scans_left -= 1
            self._scan(now)
        if broker.pages_out:
            self.allow(self.lengths.turn)
            broker.page_out_more()

    def tick(self, now: int, options: HubOptions) -> None:
        """Begin searches for due entries, for expired ones once a period, if it is positive; and
        likewise for unused names."""
        self._may_go_on = True
        self._scans_left = SCANS_A_TICK
        self._names_left = NAME_SLICES_A_TICK
        self.lengths.tick(now)
        if options.expiry_scan_us > 0 and now >= self.next_expiry:
            self.next_expiry = now + options.expiry_scan_us
            self.scans.add(EXPIRY)
        if options.name_scan_us > 0 and now >= self.next_name_scan:
            if self.next_name_scan:
                self.scans.add(NAMES)
            self.next_name_scan = now + options.name_scan_us
        if self._broker.wakes(now):
            self.scans.add(DELIVERY)

    def _scan(self, now: int) -> None:
        """Search for due entries, a slice for each reason."""
        broker = self._broker
        if EXPIRY in self.scans:
            self.allow(self.lengths.slice)
            broker.handle(ExpireDue(), now)
            if not broker.work.more_due:
                self.scans.remove(EXPIRY)
        if DELIVERY in self.scans:
            self.allow(self.lengths.slice)
            broker.handle(DeliverDue(), now)
            if not broker.work.more_scheduled:
                self.scans.remove(DELIVERY)
        if NAMES in self.scans and self._names_left:
            self._names_left -= 1
            self.allow(self.lengths.slice)
            broker.handle(DeleteUnused(), now)
            if not broker.scans_names:
                self.scans.remove(NAMES)

    def _let_proceed(self, proceed: Callable[[Peer], None], now: int) -> None:
        """Resume waiting peers, one after the other, until the turn is used up.

        Work that cannot be divided, for example a message to very many queues, may take far longer;
        then the next turn is only for peers that do not wait.
        """
        if self._is_overspent:
            self._is_overspent = False
            return
        lengths = self.lengths
        end = self._budget.spent + lengths.turn
        while self.waiting and self._budget.spent < end:
            peer = next(iter(self.waiting))
            del self.waiting[peer]
            self._budget.limit = min(end, self._budget.spent + lengths.slice // 2)
            begun = self._budget.spent
            proceed(peer)
            peer.usage.add(self._budget.spent - begun, now)
        self._is_overspent = self._budget.spent - end >= lengths.turn // 2

    # ---- how long

    def took(self, begun: int, now: int) -> None:
        """Measure a piece of work that began when the meter showed `begun`."""
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
        """Return turn times in milliseconds of processor time, and the unfinished work."""
        recent = 0
        if now < self._minute_ends + MINUTE_US:
            recent = max(self._minute_ns, self._minute_before_ns)
        return {
            "turn_ms_longest": round(self._longest_ns / NS_PER_MS, 3),
            "turn_ms_longest_lately": round(recent / NS_PER_MS, 3),
            "peers_waiting_for_turn": len(self.waiting),
            "connections_being_closed": len(self._broker.work.closing),
            "queues_being_deleted": len(self._broker.work.emptying),
        }
