"""Judging events: each is asked for at the rules of its kind, and then applied to the state.

At most one breach is reported for an event; then it is taken as true, if it fits at all. Must never
know where events come from.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from daybook.engine import events, reasons
from daybook.engine.apply import APPLY
from daybook.engine.core import Options
from daybook.engine.events import (
    ADDRESS,
    CONNECTION,
    CONSUMER,
    KIND,
    MESSAGE,
    QUEUE,
    REASON,
    TIME,
    Row,
)
from daybook.engine.misfit import MisfitError
from daybook.engine.queues import StoreError
from daybook.engine.state import State
from daybook.history.audit import delivering, ending, entering, grouping, rules
from daybook.history.audit.accounts import Ledger
from daybook.history.audit.registry import AFTER, BEFORE, CHECKS, after, before
from daybook.history.audit.rules import Breach, Rule, Wrong
from daybook.history.audit.scene import Folded, Scene


@before(events.ADDRESS_DELETED)
def _address_goes(scene: Scene, row: Row) -> None:
    address = scene.state.addresses.get(row[ADDRESS])
    if address is not None:
        scene.core.wildcards.remove(address)


@after(events.ADDRESS_CREATED)
def _address_came(scene: Scene, row: Row) -> None:
    scene.core.wildcards.add(scene.state.addresses[row[ADDRESS]])


@after(events.CONSUMER_ATTACHED)
def _consumer_came(scene: Scene, row: Row) -> None:
    scene.prepare(scene.state.consumers[row[CONSUMER]])


@after(events.CONSUMER_DETACHED)
def _consumer_went(scene: Scene, row: Row) -> None:
    for known in (scene.automatic, scene.manual, scene.unclear):
        known.discard(row[CONSUMER])


@after(events.CONNECTION_CLOSED)
def _connection_went(scene: Scene, row: Row) -> None:
    scene.forget(row[CONNECTION])


@after(events.BROKER_STARTED)
def _broker_started(scene: Scene, row: Row) -> None:
    scene.start()


@after(events.DIVERT_CREATED)
@after(events.DIVERT_DELETED)
def _diverts_changed(scene: Scene, row: Row) -> None:
    scene.core.diverts.follow(scene.state.diverts)


assert all((delivering, ending, entering, grouping))  # Imported for the rules that they register.
REASONS_OF: Final = {
    event.number: frozenset(event.reasons) for event in events.EVENT_TYPES if event.reasons
}
_MISFITS: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MisfitError, StoreError,
    TypeError, ValueError, msgspec.MsgspecError,
)  # fmt: skip
"""Whatever events that make no sense cause in the code that applies them."""


class Clock:
    """The rule of times: they go back by no more than a tolerance, and are not in the future.

    All in microseconds since 1970.
    """

    def __init__(self, now: int, tolerance: int, last: int = 0) -> None:
        self._latest: Final = now + tolerance
        self._tolerance: Final = tolerance
        self.last = last
        self._is_ahead = last > self._latest

    def check(self, time: int) -> Wrong | None:
        """Check the time of the next event."""
        last, self.last = self.last, time
        if time < last - self._tolerance and not self._is_ahead:
            why = f"its time is {(last - time) / 1_000_000:,.3f} s before that of the event before"
            return rules.TIME, why, ()
        was_ahead, self._is_ahead = self._is_ahead, time > self._latest
        if self._is_ahead and not was_ahead:
            ahead = (time - self._latest) / 1_000_000
            return rules.TIME, f"its time is {ahead:,.0f} s in the future", ()
        return None


class Judge:
    """Judges the events after some state, block by block."""

    def __init__(self, state: State, lsn: int, options: Options, clock: Clock) -> None:
        self.scene: Final = Scene(state, lsn, options)
        self.ledger: Final = Ledger(state)
        self.clock: Final = clock
        self.judged = 0
        self._last = lsn

    def judge(self, found: list[Folded]) -> Iterator[Breach]:
        """Judge the events of the next block, and apply them."""
        scene, ledger = self.scene, self.ledger
        checks, apply, core, clock = CHECKS, APPLY, self.scene.core, self.clock
        scene.begin(found)
        for at, event in enumerate(found):
            scene.turn(at, event)
            lsn, row, detail, headers, body = event
            kind = row[KIND]
            wrong: Wrong | None = None
            if row[TIME] != clock.last:
                wrong = clock.check(row[TIME])
                core.now = row[TIME]
            try:
                check = checks.get(kind)
                if wrong is None and check is not None:
                    wrong = check(scene, row)
                wrong = wrong or _wrong_reason(row)
                if kind in BEFORE:
                    BEFORE[kind](scene, row)
                ledger.before(kind, row, detail)
                apply[kind](scene.state, lsn, row, detail, headers, body)
                ledger.after(kind, row, detail)
                if kind in AFTER:
                    AFTER[kind](scene, row)
            except _MISFITS as error:
                wrong = wrong or _misfit(kind, error)
                ledger.forget()
            if wrong is not None:
                yield self.breach(lsn, row, wrong)
        self.judged += len(found)

    def breach(self, lsn: int, row: Row, wrong: Wrong) -> Breach:
        """Describe a broken rule."""
        rule, why, proof = wrong
        queue = self.scene.state.queues.get(row[QUEUE])
        address = self.scene.state.addresses.get(row[ADDRESS])
        return Breach(
            rule.name, rule.source, lsn, f"event {lsn}, {_event(row)}: {why}",
            tuple(sorted({each for each in proof if each} | {lsn})), row[MESSAGE],
            queue.name if queue is not None else "", address.name if address is not None else "",
        )  # fmt: skip


def _event(row: Row) -> str:
    kind = row[KIND]
    name = events.BY_NUMBER[kind].name if kind in events.BY_NUMBER else f"kind {kind}"
    reason = reasons.REASONS.get(row[REASON], ("",))[0]
    what = f"{name} ({reason})" if reason else name
    return f"{what} of message {row[MESSAGE]}" if row[MESSAGE] else what


def _wrong_reason(row: Row) -> Wrong | None:
    """Check the reason of an event, which depends on its kind."""
    reason = row[REASON]
    if row[KIND] in REASONS_OF:
        if reason in REASONS_OF[row[KIND]]:
            return None
    elif reason in reasons.REASONS:
        return None
    if reason in reasons.REASONS:
        return rules.KNOWN, "no event of this kind has this reason", ()
    return rules.KNOWN, f"reason {reason} is unknown", ()


def _misfit(kind: int, error: Exception) -> Wrong:
    rule: Rule = rules.FITS
    if kind not in events.BY_NUMBER:
        return rules.KNOWN, "this version does not know its kind", ()
    why = f"{error.args[0]} does not exist" if isinstance(error, KeyError) else str(error)
    return rule, why, ()
