"""The pass before `apply`: finds messages that only arrived, or arrived and left, in a run of
events.

In a run of events without barriers it finds *plain* entries (ADR 8) by message and queue: routed
and gone within the run, routed only, or ready before and gone. Everything else, in LSN order, is
left to `engine.state.apply`. Must never know tables or the state: the first event of an entry in
the run shows what it was before; only for entries that leave without another event it asks whether
they were in flight.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daybook.engine.facts import details, events, kinds
from daybook.engine.facts.life import READY
from daybook.engine.messages.message import MESSAGE_OVERHEAD_BYTES
from daybook.engine.state.apply import APPLY, nothing
from daybook.paging.tables.columns import DETAIL_BYTES, Columns
from daybook.paging.tables.pages import I64, NO_ROWS, SIZE_MAX, U8, U16, U32, U64, Ids, Rows

KINDS: Final = 256


def _table(numbers: Iterable[int]) -> NDArray[np.bool_]:
    """A set of kinds, as a table by their numbers."""
    table = np.zeros(KINDS, bool)
    table[sorted(numbers)] = True
    return table


NEW_KINDS: Final = _table(kinds.ENTERING)
TAKING_KINDS: Final = _table(kinds.TAKING)
READY_KINDS: Final = _table(kind for kind, life in kinds.LIVES.items() if life.after == READY)
UNNAMED_ENDS: Final = _table(kinds.ENDING_UNNAMED)
END_KINDS: Final = _table(kinds.LEAVING)
COUNTED_ENDS: Final = sorted(kinds.LEAVING.intersection(kinds.COUNTERS))
KEYED: Final = b"last_values"
"""In the details of Routed that have last value keys, and hardly in any other."""
DUE: Final = b"\xa3due"
"""Likewise of those that are scheduled."""
ANNOTATIONS: Final = b"annotations"
"""Likewise of those, and of Returned, that annotate their message ..."""
NOT_HERE: Final = b"not_here"
"""... and of Returned that are not for their consumer."""
PLAIN_KINDS: Final = _table(kinds.NOT_ASIDE | kinds.LEAVING)

SILENT_KINDS: Final = np.zeros(KINDS, bool)
"""Kinds without effect here; `paging.fold.fold` does not pass them to `apply`."""
SILENT_KINDS[[kind for kind, function in APPLY.items() if function is nothing]] = True
# It says where content is, and entries here have no content.
SILENT_KINDS[events.CARRIED] = True

TABLE_MAX: Final = 1 << 22
"""Numbers below this are ranked by a table instead of by sorting."""
KEY_MAX: Final = 1 << 62


class Placed(NamedTuple):
    """Entries of any queues: the queue and priority of each, and its columns."""

    queue: Ids
    priority: NDArray[np.uint8]
    rows: Rows


class Taken(NamedTuple):
    """Entries that leave the pages, by queue, priority and message id."""

    queue: Ids
    priority: NDArray[np.uint8]
    message: NDArray[np.uint64]


class Run(NamedTuple):
    """The result of a run of events.

    `rest` are the positions of events for `apply`. For the plain ones: the queues that entries were
    added to, and by counter the queues that entries left, one item for each event; the entries to
    be appended to pages, and those to be removed. `newest` are the ids of the messages of `added`.
    """

    rest: NDArray[np.intp]
    added: Ids
    newest: NDArray[np.uint64]
    ended: dict[str, Ids]
    appended: Placed
    taken: Taken


NO_QUEUES: Final = np.empty(0, U32)
NO_PRIORITIES: Final = np.empty(0, U8)
NONE_PLACED: Final = Placed(NO_QUEUES, NO_PRIORITIES, NO_ROWS)
NONE_TAKEN: Final = Taken(NO_QUEUES, NO_PRIORITIES, NO_ROWS.message)


def ranks(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the distinct values in order, and the position of each value among them."""
    if not len(values) or int(values.max()) >= TABLE_MAX:
        distinct, found = np.unique(values, return_inverse=True)
        return distinct, found
    table = np.zeros(int(values.max()) + 1, np.intp)
    table[values] = 1
    distinct = np.flatnonzero(table)
    table[distinct] = np.arange(len(distinct))
    return distinct, table[values]


def everything(columns: Columns, start: int, stop: int) -> Run:
    """Leave all events of a run to `apply`."""
    kind = columns.column(events.KIND)[start:stop]
    rest = start + np.flatnonzero(~SILENT_KINDS[kind])
    none = NO_QUEUES
    return Run(rest, none, NO_ROWS.message, {}, NONE_PLACED, NONE_TAKEN)


class _Items(NamedTuple):
    """The effects of events on entries, one item for each event and entry, in order.

    `at` is the position in the run. `odd` events are for `apply`, with all others of the same
    entry. `spread` says for each message routed in the run, by position, whether it went to several
    queues.
    """

    at: NDArray[np.intp]
    kind: NDArray[np.uint8]
    message: NDArray[np.uint64]
    queue: Ids
    odd: NDArray[np.bool_]
    spread: NDArray[np.bool_]


def classify(
    columns: Columns,
    start: int,
    stop: int,
    flying: Callable[[int, int], bool],
    *,
    keyed: bool = True,
) -> Run:
    """Determine the result of the events of the run from position `start` to before `stop`.

    `flying` says whether a message (second) was in flight from a queue (first) before the run;
    `keyed`, whether there may be last value queues.
    """
    items = _items(columns, start, stop, keyed=keyed)
    if not len(items.at):
        return everything(columns, start, stop)
    run_first = columns.first_lsn + start
    group, groups = _groups(items, run_first, stop - start)
    present = np.zeros(groups, bool)
    present[group] = True
    plain = present.copy()
    plain[group[items.odd]] = False
    # For numbers that occur more than once, the last assignment wins.
    last = np.zeros(groups, np.intp)
    last[group] = np.arange(len(group))
    first = np.zeros(groups, np.intp)
    first[group[::-1]] = np.arange(len(group))[::-1]
    first_kind, last_kind = items.kind[first], items.kind[last]
    is_new = plain & NEW_KINDS[first_kind]
    ends = plain & END_KINDS[last_kind]
    stays = is_new & READY_KINDS[last_kind]
    taken = ends & TAKING_KINDS[first_kind]
    for number in np.flatnonzero(ends & (first == last) & UNNAMED_ENDS[last_kind]).tolist():
        item = first[number]
        taken[number] = not flying(int(items.queue[item]), int(items.message[item]))
    plain = (is_new & ends) | stays | taken
    if items.spread.any():
        _keep_together(items, first, present, plain, run_first)
    rest = ~SILENT_KINDS[columns.column(events.KIND)[start:stop]]
    rest[items.at] &= ~plain[group]
    added = first[is_new & plain]
    ended = _ended(columns, start, items, last[ends & plain])
    stays &= plain
    return Run(
        start + np.flatnonzero(rest),
        items.queue[added],
        items.message[added],
        ended,
        _placed(columns, start, items, first[stays], last[stays]),
        _taken(columns, start, items, first[taken & plain]),
    )


def _ended(columns: Columns, start: int, items: _Items, last: NDArray[np.intp]) -> dict[str, Ids]:
    """Return by counter the queues that entries left by the last items of plain ones."""
    kind = items.kind[last]
    found = {kinds.COUNTERS[each]: items.queue[last[kind == each]] for each in COUNTED_ENDS}
    for (each, reason), counter in kinds.COUNTERS_BY_REASON.items():
        chosen = last[kind == each]
        if len(chosen):
            reasons = columns.column(events.REASON)[start + items.at[chosen]]
            found[counter] = items.queue[chosen[reasons == reason]]
    return found


def _items(columns: Columns, start: int, stop: int, *, keyed: bool) -> _Items:
    kind = columns.column(events.KIND)[start:stop]
    message = columns.column(events.MESSAGE)[start:stop]
    queue = columns.column(events.QUEUE)[start:stop]
    flags = columns.column(events.FLAGS)[start:stop]
    odd = ~PLAIN_KINDS[kind] | (queue == 0)
    spread = (kind == events.ROUTED) & (queue == 0)
    # The size of a large message is in its detail.
    odd |= (kind == events.ROUTED) & ((flags & events.LARGE) > 0)
    # The detail describes entries that enter by another kind, and their id is not that of the
    # event.
    odd |= NEW_KINDS[kind] & (kind != events.ROUTED)
    noted = _noted(
        columns, start, kind == events.ROUTED, (*((KEYED,) if keyed else ()), DUE, ANNOTATIONS)
    )
    noted |= _noted(columns, start, kind == events.RETURNED, (ANNOTATIONS, NOT_HERE))
    odd |= noted
    at = np.flatnonzero((message > 0) & ~SILENT_KINDS[kind])
    if not spread.any():
        return _Items(at, kind[at], message[at], queue[at], odd[at], spread)
    positions = np.flatnonzero(spread)
    lists = [detail.queues for detail in _details(columns, start + positions)]
    lengths = np.array([len(queues) for queues in lists])
    at = np.concatenate((at[~spread[at]], np.repeat(positions, lengths)))
    queues = np.array([queue_id for queues in lists for queue_id in queues], U64)
    queues = np.concatenate((queue[at[: len(at) - len(queues)]], queues))
    order = np.argsort(at, kind="stable")
    at, queues = at[order], queues[order]
    is_odd = odd[at] & (~spread[at] | ((flags[at] & events.LARGE) > 0) | noted[at])
    return _Items(at, kind[at], message[at], queues, is_odd, spread)


def _noted(
    columns: Columns, start: int, among: NDArray[np.bool_], fields: tuple[bytes, ...]
) -> NDArray[np.bool_]:
    """Say of each event whether it is one of some with one of these fields, which `apply` knows."""
    found = np.zeros(len(among), bool)
    detail_bytes = columns.column(DETAIL_BYTES)[start : start + len(among)]
    detailed = np.flatnonzero(among & (detail_bytes > len(DUE)))
    if len(detailed):
        found[detailed] = [
            any(field in each for field in fields) for each in columns.details(start + detailed)
        ]
    return found


def _details(columns: Columns, positions: NDArray[np.intp]) -> Iterator[details.RoutedDetail]:
    """Details of Routed events."""
    for detail in columns.details(positions):
        yield events.routed_detail(detail)


def _groups(items: _Items, run_first: int, count: int) -> tuple[NDArray[np.intp], int]:
    """Number the items by entry: return the number of each item's entry, and how many numbers there
    are.

    A message that was routed in the run to one queue has the number of its event there, whatever
    the queue. Others are numbered by queue, too.
    """
    group = np.empty(len(items.message), np.intp)
    alone = (items.message >= run_first) & (items.message < run_first + count)
    group[alone] = items.message[alone] - np.uint64(run_first)
    alone[alone] = ~items.spread[group[alone]]
    others = ~alone
    if not others.any():
        return group, count
    queue, message = items.queue[others], items.message[others]
    queues, rank = ranks(queue)
    unnamed = items.odd[others] & (queue == 0)
    if unnamed.any():
        # An event that names no queue is about the message in all of them.
        rank[np.isin(message, message[unnamed])] = 0
    assert int(message.max()) < KEY_MAX // len(queues)
    key = message * np.uint64(len(queues)) + rank.astype(np.uint64)
    distinct, number = np.unique(key, return_inverse=True)
    group[others] = count + number
    return group, count + len(distinct)


def _keep_together(
    items: _Items,
    first: NDArray[np.intp],
    present: NDArray[np.bool_],
    plain: NDArray[np.bool_],
    run_first: int,
) -> None:
    """Leave a message that was routed to several queues to `apply` if it is not plain in all of
    them."""
    message = items.message[first]
    is_new = present & (message >= run_first) & (message < run_first + len(items.spread))
    at = np.where(is_new, message - np.uint64(run_first), np.uint64(0)).astype(np.intp)
    spread = is_new & items.spread[at]
    broken = np.zeros(len(items.spread), bool)
    broken[at[spread & ~plain]] = True
    plain &= ~(spread & broken[at])


def _placed(
    columns: Columns,
    start: int,
    items: _Items,
    first: NDArray[np.intp],
    last: NDArray[np.intp],
) -> Placed:
    """Return the final columns of entries whose first item is Routed.

    The last item has the delivery count, and says whether the entry was delivered before.
    """
    routed, latest = start + items.at[first], start + items.at[last]
    flags = columns.column(events.FLAGS)
    sizes = np.minimum(columns.sizes(routed) + MESSAGE_OVERHEAD_BYTES, SIZE_MAX)
    expires = np.zeros(len(routed), I64)
    detailed = np.flatnonzero(columns.column(DETAIL_BYTES)[routed])
    if len(detailed):
        expires[detailed] = [detail.expires for detail in _details(columns, routed[detailed])]
    rows = Rows(
        items.message[first],
        sizes.astype(U32),
        columns.column(events.ADDRESS)[routed],
        columns.column(events.DELIVERY_COUNT)[latest].astype(U16),
        (flags[routed] | flags[latest] & U8.type(events.REDELIVERED)).astype(U16),
        expires,
        np.zeros(len(routed), I64),
        np.zeros(len(routed), U64),
    )
    return Placed(items.queue[first], columns.column(events.PRIORITY)[routed], rows)


def _taken(columns: Columns, start: int, items: _Items, first: NDArray[np.intp]) -> Taken:
    priority = columns.column(events.PRIORITY)[start + items.at[first]]
    return Taken(items.queue[first], priority, items.message[first])
