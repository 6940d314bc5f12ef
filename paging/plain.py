"""The pass before `apply`: messages whose events say no more than that they came, or came and went.

In a run of events without barriers it finds, by message, what is *plain* (ADR 8): routed and gone
within the run, routed only, or known before and gone. Everything else, in LSN order, is for
`engine.apply`. Must never know tables or the state: what an entry was before the run shows in the
first event that it has there.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine import events
from engine.apply import APPLY, nothing
from engine.message import MESSAGE_OVERHEAD_BYTES
from paging.columns import DETAIL_BYTES, Columns
from paging.pages import I64, NO_ROWS, SIZE_MAX, U8, U16, U32, Rows

KINDS: Final = 256
PLAIN_KINDS: Final = np.zeros(KINDS, bool)
PLAIN_KINDS[[events.ROUTED, events.DELIVERED, events.ACKNOWLEDGED, events.RETURNED]] = True

SILENT_KINDS: Final = np.zeros(KINDS, bool)
"""Kinds that change nothing; `paging.fold` does not hand them to `apply`."""
SILENT_KINDS[[kind for kind, function in APPLY.items() if function is nothing]] = True

TABLE_MAX: Final = 1 << 22
"""Numbers below this are ranked by a table instead of by sorting."""
KEY_MAX: Final = 1 << 62


class Placed(NamedTuple):
    """Entries of any queues: which queue and priority each belongs to, and its columns."""

    queue: NDArray[np.uint32]
    priority: NDArray[np.uint8]
    rows: Rows


class Taken(NamedTuple):
    """Entries that leave the pages, by queue, priority and message id."""

    queue: NDArray[np.uint32]
    priority: NDArray[np.uint8]
    message: NDArray[np.uint64]


class Run(NamedTuple):
    """What the events of a run come to.

    `rest` are the positions of events for `apply`. Of the plain ones: the queues that something
    was added to and acknowledged in, one item an event, what is to be appended to pages, and what
    is to be taken out. `newest` goes with `added`: ids of the messages.
    """

    rest: NDArray[np.intp]
    added: NDArray[np.uint32]
    newest: NDArray[np.uint64]
    acknowledged: NDArray[np.uint32]
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
    return Run(rest, NO_QUEUES, NO_ROWS.message, NO_QUEUES, NONE_PLACED, NONE_TAKEN)


def classify(columns: Columns, start: int, stop: int) -> Run:
    """Say what the events of the run from position `start` to before `stop` come to."""
    kind = columns.column(events.KIND)[start:stop]
    message = columns.column(events.MESSAGE)[start:stop]
    queue = columns.column(events.QUEUE)[start:stop]
    detail = columns.column(DETAIL_BYTES)[start:stop]
    odd = ~PLAIN_KINDS[kind]
    odd |= (queue == 0) | ((kind == events.ROUTED) & (detail > 0))
    touches = message > 0
    at = np.flatnonzero(touches)
    run_first = columns.first_lsn + start
    group, groups = _groups(message[at], queue[at], odd[at], run_first, stop - start)
    plain = np.ones(groups, bool)
    plain[group[odd[at]]] = False
    # Of numbers that come more than once, the last one assigned stays.
    last = np.zeros(groups, np.intp)
    last[group] = at
    first = np.zeros(groups, np.intp)
    first[group[::-1]] = at[::-1]
    present = np.zeros(groups, bool)
    present[group] = True
    plain &= present
    first_kind, last_kind = kind[first], kind[last]
    is_new = plain & (first_kind == events.ROUTED)
    gone = plain & (last_kind == events.ACKNOWLEDGED)
    stays = is_new & ((last_kind == events.ROUTED) | (last_kind == events.RETURNED))
    taken = gone & (first_kind == events.DELIVERED)
    plain = (is_new & gone) | stays | taken
    rest = ~SILENT_KINDS[kind]
    rest[at] &= ~plain[group]
    added = first[is_new & plain]
    return Run(
        start + np.flatnonzero(rest),
        queue[added],
        message[added],
        queue[last[gone & plain]],
        _placed(columns, start, first[stays], last[stays]),
        _taken(columns, start, first[taken]),
    )


def _groups(
    message: NDArray[np.uint64],
    queue: NDArray[np.uint32],
    odd: NDArray[np.bool_],
    run_first: int,
    count: int,
) -> tuple[NDArray[np.intp], int]:
    """Number the events by entry: return the number of each event's entry, and how many numbers.

    A message that was routed in the run has the number of its event there, whatever the queue:
    it is in one queue, or odd. One from before is told apart by queue, too.
    """
    group = np.empty(len(message), np.intp)
    is_new = message >= run_first
    group[is_new] = message[is_new] - np.uint64(run_first)
    old = ~is_new
    if not old.any():
        return group, count
    queues, queue_rank = ranks(queue[old])
    old_message = message[old]
    several = odd[old] & (queue[old] == 0)
    if several.any():
        # An event that names no queue is about the message in all of them.
        queue_rank[np.isin(old_message, old_message[several])] = 0
    assert int(old_message.max()) < KEY_MAX // len(queues)
    key = old_message * np.uint64(len(queues)) + queue_rank.astype(np.uint64)
    distinct, number = np.unique(key, return_inverse=True)
    group[old] = count + number
    return group, count + len(distinct)


def _placed(
    columns: Columns, start: int, first: NDArray[np.intp], last: NDArray[np.intp]
) -> Placed:
    """What entries look like that were routed at `first`; `last` has the delivery count."""
    routed = start + first
    sizes = np.minimum(columns.sizes(routed) + MESSAGE_OVERHEAD_BYTES, SIZE_MAX)
    rows = Rows(
        columns.column(events.MESSAGE)[routed],
        sizes.astype(U32),
        columns.column(events.ADDRESS)[routed],
        columns.column(events.DELIVERY_COUNT)[start + last].astype(U16),
        columns.column(events.FLAGS)[routed],
        np.zeros(len(routed), I64),
    )
    return Placed(
        columns.column(events.QUEUE)[routed], columns.column(events.PRIORITY)[routed], rows
    )


def _taken(columns: Columns, start: int, first: NDArray[np.intp]) -> Taken:
    at = start + first
    return Taken(
        columns.column(events.QUEUE)[at],
        columns.column(events.PRIORITY)[at],
        columns.column(events.MESSAGE)[at],
    )
