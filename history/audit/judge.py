"""Judging events: each is asked for at the rules of its kind, and then applied to the state.

At most one breach is reported for an event; then it is taken as true, if it fits at all. Must never
know where events come from.
"""

from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Final

import msgspec

import daybook.history.audit.checks  # noqa: F401 (registers the rules)
from daybook.engine.core.core import Options
from daybook.engine.entries.rings import size_of
from daybook.engine.facts import events, reasons
from daybook.engine.facts.events import (
    ADDRESS,
    CONNECTION,
    CONSUMER,
    KIND,
    MESSAGE,
    QUEUE,
    REASON,
    TIME,
    Column,
    EventType,
    Row,
)
from daybook.engine.facts.mismatch import MismatchError
from daybook.engine.queues.queue import StoreError
from daybook.engine.state.apply import APPLY
from daybook.engine.state.state import State
from daybook.history.audit import feature_levels, rules
from daybook.history.audit.accounts import Ledger
from daybook.history.audit.context import AuditContext, Folded
from daybook.history.audit.registry import AFTER, BEFORE, CHECKS, after, before
from daybook.history.audit.rules import Breach, Rule, Wrong


@before(events.ADDRESS_DELETED)
def _address_goes(context: AuditContext, row: Row) -> None:
    address = context.state.addresses.get(row[ADDRESS])
    if address is not None:
        context.core.wildcards.remove(address)


@after(events.ADDRESS_CREATED)
def _address_came(context: AuditContext, row: Row) -> None:
    context.core.wildcards.add(context.state.addresses[row[ADDRESS]])


@after(events.CONSUMER_ATTACHED)
def _consumer_came(context: AuditContext, row: Row) -> None:
    context.prepare(context.state.consumers[row[CONSUMER]])
    context.groups.pop(row[QUEUE], None)


@after(events.CONSUMER_DETACHED)
def _consumer_went(context: AuditContext, row: Row) -> None:
    for known in (context.automatic, context.manual, context.unclear):
        known.discard(row[CONSUMER])
    context.groups.pop(row[QUEUE], None)


@after(events.CONNECTION_CLOSED)
def _connection_went(context: AuditContext, row: Row) -> None:
    context.forget(row[CONNECTION])


@before(events.BROKER_STARTED)
def _broker_starts(context: AuditContext, row: Row) -> None:
    context.interrupted = {
        (consumer.queue.id, message)
        for consumer in context.state.consumers.values()
        if size_of(context.core, consumer.queue) >= 0
        for message in consumer.unacked
    }


@after(events.BROKER_STARTED)
def _broker_started(context: AuditContext, row: Row) -> None:
    context.start()


@after(events.LOST)
def _events_lost(context: AuditContext, row: Row) -> None:
    context.lose_links()


@after(events.DIVERT_CREATED)
@after(events.DIVERT_DELETED)
def _diverts_changed(context: AuditContext, row: Row) -> None:
    context.core.diverts.follow(context.state.diverts)


NAMES: Final = [column.name for column in events.COLUMNS]
LSN_MAX: Final = 1 << 63
ALWAYS: Final = ("kind", "time")
"""The columns that every kind fills."""


def _unused(event: EventType) -> list[Column]:
    """Return the columns that events of a kind leave at 0."""
    return [each for each in events.COLUMNS if each.name not in (*event.columns, *ALWAYS)]


def _form(event: EventType) -> tuple[frozenset[int], Callable[[Row], Iterable[int]]]:
    """Return the reasons that events of a kind can have, and what reads the columns that they leave
    at 0."""
    unused = [NAMES.index(each.name) for each in _unused(event)]
    # Two at least, so that what it reads is a tuple.
    reader = itemgetter(*unused, unused[0]) if unused else itemgetter(slice(0, 0))
    return frozenset(event.reasons or reasons.REASONS), reader


FORMS: Final = {event.number: _form(event) for event in events.EVENT_TYPES}
_MISFITS: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MismatchError, StoreError,
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
        self.context: Final = AuditContext(state, lsn, options)
        # The first events may have the time of the last one before.
        self.context.core.now = clock.last
        self.ledger: Final = Ledger(state)
        self.clock: Final = clock
        self.judged = 0
        self.notes: Final[list[str]] = []
        self._last = lsn

    def judge(
        self, found: list[Folded], *, after: int = 0, last: int = LSN_MAX
    ) -> Iterator[Breach]:
        """Judge the events of the next block, and apply them.

        Those up to `after` are in the state already, and those behind `last` are only looked at.
        """
        context, ledger = self.context, self.ledger
        checks, apply, core, clock, forms = CHECKS, APPLY, self.context.core, self.clock, FORMS
        context.begin(found)
        for at, event in enumerate(found):
            lsn, row, detail, headers, body = event
            if not after < lsn <= last:
                continue
            context.turn(at, event)
            kind = row[KIND]
            wrong: Wrong | None = None
            if row[TIME] != clock.last:
                back = clock.last - row[TIME]
                wrong = clock.check(row[TIME])
                if wrong is not None and (note := _other_clock(context, found[at:], back)):
                    wrong = None
                    self.notes.append(note)
                core.now = row[TIME]
            try:
                check = checks.get(kind)
                if wrong is None and check is not None:
                    wrong = check(context, row)
                form = forms.get(kind)
                if form is not None and (row[REASON] not in form[0] or any(form[1](row))):
                    wrong = wrong or _wrong_form(row)
                if kind in BEFORE:
                    BEFORE[kind](context, row)
                ledger.before(kind, row, detail)
                apply[kind](context.state, lsn, row, detail, headers, body)
                ledger.after(kind, row, detail)
                if kind in AFTER:
                    AFTER[kind](context, row)
            except _MISFITS as error:
                wrong = wrong or _misfit(kind, error)
                ledger.forget()
            if wrong is not None:
                yield self.breach(lsn, row, wrong)
        self.judged += len(found)

    def breach(self, lsn: int, row: Row, wrong: Wrong) -> Breach:
        """Describe a broken rule."""
        rule, why, proof = wrong
        queue = self.context.state.queues.get(row[QUEUE])
        address = self.context.state.addresses.get(row[ADDRESS])
        return Breach(
            rule.name, rule.source, lsn, f"event {lsn}, {_event(row)}: {why}",
            tuple(sorted({each for each in proof if each} | {lsn})), row[MESSAGE],
            queue.name if queue is not None else "", address.name if address is not None else "",
        )  # fmt: skip


def _other_clock(context: AuditContext, found: list[Folded], back: int) -> str:
    """Return a note if times go back because another node of a cluster leads from here on, by a
    clock of its own; "" otherwise."""
    start = next((each for each in found if each[1][KIND] != events.SKIPPED), None)
    if back <= 0 or start is None or start[1][KIND] != events.BROKER_STARTED:
        return ""
    leader, before = feature_levels.decider_of(start[0], start[2]), context.decider
    if not 0 < before.epoch < leader.epoch or leader.node == before.node:
        return ""
    return (
        f"event {start[0]}: '{leader.node}' leads from here on in epoch {leader.epoch}, and its"
        f" clock was {back / 1_000_000:,.3f} s behind that of '{before.node}', which led before;"
        " keep the clocks of all nodes right, as with chrony or ntpd"
    )


def _event(row: Row) -> str:
    kind = row[KIND]
    name = events.BY_NUMBER[kind].name if kind in events.BY_NUMBER else f"kind {kind}"
    reason = reasons.REASONS.get(row[REASON], ("",))[0]
    what = f"{name} ({reason})" if reason else name
    return f"{what} of message {row[MESSAGE]}" if row[MESSAGE] else what


def _wrong_form(row: Row) -> Wrong | None:
    """Return the fault of the reason of an event, or of columns that its kind does not have."""
    event, reason = events.BY_NUMBER[row[KIND]], row[REASON]
    if reason not in reasons.REASONS:
        return rules.KNOWN, f"reason {reason} is unknown", ()
    if reason not in FORMS[event.number][0]:
        return rules.KNOWN, "no event of this kind has this reason", ()
    filled = [each.name for each in _unused(event) if row[NAMES.index(each.name)]]
    return rules.KNOWN, f"events of this kind have no {' and no '.join(filled)}", ()


def _misfit(kind: int, error: Exception) -> Wrong:
    rule: Rule = rules.FITS
    if kind not in events.BY_NUMBER:
        return rules.KNOWN, "this version does not know its kind", ()
    why = f"{error.args[0]} does not exist" if isinstance(error, KeyError) else str(error)
    return rule, why, ()
