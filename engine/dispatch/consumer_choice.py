"""Choosing the consumer of each entry, among those that can take it.

Strict priority between levels, first in first out within a level, round robin between the consumers
that can take. `Queue.next_consumer` is the consumer whose turn it is; it moves when one was served.
There are two loops: the second follows all rules, the first is for queues that need none of them.
Non-destructive queues choose no consumer: all get everything (`engine.settling.non_destructive`).
`tests/property/engine/test_choosing.py` checks that both choose alike.

- **In turn**: the next consumer that can take gets the head of the queue.
- **By rules**: consumers of a higher priority are asked first, and those of the same priority in
  turn. The first consumer that gets an entry of an exclusive queue holds it: nobody else gets any
  while that one is attached. A consumer that is exclusive itself holds any queue as soon as it
  comes, and the next such consumer when it leaves. Each consumer has a cursor in each level
  (`Consumer.passed`): the position up to which it has seen every entry and wanted none. An entry
  that returns behind a cursor sets the cursor back. So a consumer never waits behind messages that
  are not for it, wherever they are, and a dispatch costs as much as there are new entries, not as
  the backlog.
- **Groups** are a rule: all messages of a group go to one consumer (`engine.queues.groups`, or by
  hashing `engine.queues.hashed_groups`). While that one cannot take, the others pass over its group
  as if they did not want it.

A rule about the order of consumers belongs in `_in_order`, one about which consumer may have an
entry in `_next_taker`; a rule that leaves messages in the queue moves the cursor. Must never know
how a delivery is sent.
"""

from collections.abc import Iterator
from typing import Final

from daybook.engine.core.core import Core
from daybook.engine.entries.dispatch_start import decide
from daybook.engine.facts.events import GROUPED
from daybook.engine.messages.message import PRIORITIES, Filter
from daybook.engine.queues import groups
from daybook.engine.queues.consumer import Consumer, as_consumer, consumers_of
from daybook.engine.queues.entry import NOTHING_PASSED, Entry
from daybook.engine.queues.groups import Groups
from daybook.engine.queues.hashed_groups import HashedGroups
from daybook.engine.queues.level_scan import SCAN_ENTRIES, behind
from daybook.engine.queues.queue import Queue
from daybook.engine.routing.departures import expire
from daybook.engine.routing.expiry import is_expired
from daybook.engine.settling.delivery import can_take, deliver, mark_last
from daybook.engine.settling.non_destructive import show_to_all
from daybook.engine.state.group_rules import groups_of

DELIVERY_UNITS: Final = 2
"""The cost of a delivery with its encoding, in units of the budget."""
CONSUMERS_SHIFT: Final = 6
"""Asking consumers whether they can take costs one unit for 2 to this power."""
CHOICE_SHIFT: Final = 3
"""Choosing by hashing among consumers costs one unit for 2 to this power."""
SORT_SHIFT: Final = 3
"""Putting consumers in the order of their priorities costs one unit for 2 to this power."""
ENTRY_STEPS: Final = 8
"""What offering an entry costs without its consumers, in steps of the budget."""
LOOK_ENTRIES: Final = 8
"""How many entries are looked at first."""
TURN_ENTRIES: Final = 5_000
"""How many entries of a queue are checked by rules before others have their turn."""


def dispatch_queue(core: Core, queue: Queue) -> None:
    """Deliver from a queue until nothing is ready or nobody can take it.

    If the budget is spent before that, the queue is then in `core.later`.
    """
    if queue.waits_since and not decide(core, queue):
        return
    if core.work.purging and queue.id in core.work.purging:
        return
    if queue.groups is not None and queue.groups.pauses:
        if queue.in_flight_count:
            return
        queue.groups.pauses = False
    definition = queue.definition
    if definition.non_destructive:
        show_to_all(core, queue)
    elif queue.selective_count or definition.exclusive or queue.holder is not None:
        choose_by_rules(core, queue)
    else:
        choose_in_turn(core, queue)


def choose_in_turn(core: Core, queue: Queue) -> None:
    """Deliver from a queue all of whose consumers take anything."""
    consumers = consumers_of(queue)
    count = len(consumers)
    position = queue.next_consumer % count
    unable = 0
    left = most = max(core.budget.left // DELIVERY_UNITS, 1)
    while unable < count:
        consumer = consumers[position]
        position += 1
        if position == count:
            position = 0
        if not can_take(consumer):
            unable += 1
            continue
        entry = queue.head()
        if entry is None:
            break
        if left == 0:
            core.later[queue.id] = queue
            break
        left -= 1
        message = entry.message
        if message.expires and is_expired(core, queue, entry):
            expire(core, queue, entry)
            if core.budget.left <= (most - left) * DELIVERY_UNITS:
                core.later[queue.id] = queue
                break
            # Nobody was served: the same consumer is asked again.
            position = (position - 1) % count
            continue
        if message.flags & GROUPED:
            core.budget.spent += (most - left - 1) * DELIVERY_UNITS
            choose_by_rules(core, queue)
            return
        unable = 0
        deliver(core, entry, consumer)
        queue.next_consumer = position
    core.budget.spent += (most - left) * DELIVERY_UNITS + (count >> CONSUMERS_SHIFT)


def choose_by_rules(core: Core, queue: Queue) -> None:
    """Deliver from a queue some of whose consumers do not take everything.

    If the budget is spent before that, the queue is then in `core.later`; the cursors of consumers
    say where to continue.
    """
    left = TURN_ENTRIES
    # Often the first few are for consumers that have credit for a few.
    most = LOOK_ENTRIES
    for priority in range(PRIORITIES - 1, -1, -1):
        while True:
            core.budget.spent += len(queue.consumers) >> CONSUMERS_SHIFT
            able = [consumer for consumer in _eligible(queue) if can_take(consumer)]
            if not able:
                return
            start = min([each.passed.get(priority, NOTHING_PASSED) for each in able])
            entries = behind(queue, priority, start, most)
            most = min(SCAN_ENTRIES, most * 4)
            if not entries:
                break
            is_cut = left <= 0 or (left < TURN_ENTRIES and core.budget.is_spent)
            left -= len(entries)
            if is_cut or not _hand_out(core, queue, priority, entries):
                core.later[queue.id] = queue
                return


class _Offer:
    """Entries of one level that are offered in order.

    `asked` has what filters said about the entry that is offered, None if only one consumer is
    asked. `is_cut` says that the budget was spent before all were asked about it: those that were
    asked have passed it.
    """

    __slots__ = ("asked", "entry", "is_cut", "priority")

    def __init__(self, priority: int, entry: Entry) -> None:
        self.priority: Final = priority
        self.entry = entry
        self.asked: dict[Filter, bool] = {}
        self.is_cut = False


def _hand_out(core: Core, queue: Queue, priority: int, entries: list[Entry]) -> bool:
    """Offer entries in order, until nobody can take any more; return False if the budget is spent
    before that."""
    able: list[Consumer] = []
    offer = _Offer(priority, entries[0])
    has_offered = False
    for entry in entries:
        if not able:
            able = [consumer for consumer in _eligible(queue) if can_take(consumer)]
            core.budget.step(len(queue.consumers))
            if not able:
                return True
        position = entry.position
        core.budget.step(ENTRY_STEPS)
        if all([position <= each.passed.get(priority, NOTHING_PASSED) for each in able]):
            # The consumers that have not passed it can take no more: skip it for now.
            continue
        if has_offered and core.budget.is_spent:
            return False
        has_offered = True
        if entry.message.expires and is_expired(core, queue, entry):
            queue.make_resident(entry)
            expire(core, queue, entry)
            if queue.definition.keyed_by:
                # A divert may have brought back a copy that replaced others of these.
                return True
            able = []
            continue
        if not entry.message.resident:
            core.fill(entry.message)
        offer.entry = entry
        if offer.asked:
            offer.asked = {}
        chosen, is_first = _taker(core, queue, offer)
        if offer.is_cut:
            return False
        if chosen is not None:
            queue.make_resident(entry)
            deliver(core, entry, chosen)
            core.budget.spent += DELIVERY_UNITS
            if is_first and queue.definition.group_first_key:
                mark_last(core, queue.definition.group_first_key)
            able = []
            continue
        _pass(queue, able, priority, position)
    return True


def _pass(queue: Queue, consumers: list[Consumer], priority: int, position: int) -> None:
    """Note that consumers have seen an entry and did not want it."""
    for consumer in consumers:
        if consumer.passed.get(priority, NOTHING_PASSED) < position:
            consumer.passed[priority] = position
            queue.has_passed = True


def _taker(core: Core, queue: Queue, offer: _Offer) -> tuple[Consumer | None, bool]:
    """Return the consumer that gets an entry, None if none can now, and whether the entry is the
    first that the consumer gets of its group or of an exclusive queue."""
    message = offer.entry.message
    if queue.definition.exclusive or queue.holder is not None:
        is_first = queue.holder is None
        return _next_taker(core, queue, offer), is_first
    key = groups.bucket_of(queue.definition, message) if message.flags & GROUPED else -1
    if key < 0:
        return _next_taker(core, queue, offer), False
    core.budget.spent += 1
    known = groups_of(queue, core.state.groups)
    if isinstance(known, HashedGroups):
        return _by_hash(core, queue, known, offer.entry, offer.priority, key)
    assert isinstance(known, Groups)
    key, taker = known.find(key, message, core.passes)
    is_first = taker is None
    if taker is None:
        consumer = _next_taker(core, queue, offer)
        if consumer is None:
            return None, False
        if not groups.closes(message):
            name = "" if known.buckets > 0 else groups.name_of(message)
            known.bind(key, consumer, bool(core.room.objects_full), name)
        return consumer, is_first
    consumer = as_consumer(taker)
    if not can_take(consumer):
        known.skip(key, offer.priority, offer.entry.position)
        return None, False
    if key >= 0 and groups.closes(message):
        known.release(key, queue.consumers)
    return consumer, is_first


def _by_hash(
    core: Core, queue: Queue, known: HashedGroups, entry: Entry, priority: int, key: int
) -> tuple[Consumer | None, bool]:
    """Do as `_taker` for a message of a group whose consumer follows from its name."""
    core.budget.spent += len(queue.consumers) >> CHOICE_SHIFT
    taker = known.choose(key, entry.message, core.passes)
    if taker is None:
        return None, False
    consumer = as_consumer(taker)
    if not can_take(consumer):
        known.pass_over(priority, entry.position)
        return None, False
    if known.has_to_wait(key, consumer):
        known.wait(key, priority, entry.position)
        return None, False
    is_named = known.buckets > 0 or key in known.bound
    known.expect(entry.message.id, key, "" if is_named else groups.name_of(entry.message))
    return consumer, bool(queue.definition.group_first_key) and not known.is_met(key)


def _next_taker(core: Core, queue: Queue, offer: _Offer) -> Consumer | None:
    """Return the consumer that gets an entry, and note whose turn is next; None if none wants it
    now, or if it is cut."""
    priority, position = offer.priority, offer.entry.position
    unwilling: list[Consumer] = []
    looked = 0
    if queue.prioritized_count:
        core.budget.spent += len(queue.consumers) >> SORT_SHIFT
    for place, consumer in _in_order(queue):
        looked += 1
        if not can_take(consumer):
            continue
        if position <= consumer.passed.get(priority, NOTHING_PASSED):
            continue
        if unwilling and core.budget.is_spent:
            offer.is_cut = True
            _pass(queue, unwilling, priority, position)
            break
        if consumer.matcher is None or _passes(core, consumer.matcher, offer):
            core.budget.step(looked << 1)
            queue.next_consumer = (place + 1) % len(queue.consumers)
            if queue.definition.exclusive:
                queue.holder = consumer
            return consumer
        unwilling.append(consumer)
    core.budget.step(looked << 1)
    return None


def _passes(core: Core, matcher: Filter, offer: _Offer) -> bool:
    """Whether the entry that is offered passes a filter, which is asked once for all that have
    it."""
    known = offer.asked.get(matcher)
    if known is None:
        known = offer.asked[matcher] = core.passes(matcher, offer.entry.message)
    return known


def _eligible(queue: Queue) -> list[Consumer]:
    """Return the consumers that may get anything now."""
    return [as_consumer(queue.holder)] if queue.holder is not None else consumers_of(queue)


def _in_order(queue: Queue) -> Iterator[tuple[int, Consumer]]:
    """Iterate over the eligible consumers in the order in which they are asked, each with its
    place."""
    consumers = consumers_of(queue)
    if queue.holder is not None:
        holder = as_consumer(queue.holder)
        yield consumers.index(holder), holder
        return
    count = len(consumers)
    first = queue.next_consumer
    in_turn: Iterator[int] = ((first + step) % count for step in range(count))
    if queue.prioritized_count:
        # Stable: those of the same priority stay in turn.
        in_turn = iter(sorted(in_turn, key=lambda place: -consumers[place].priority))
    for place in in_turn:
        yield place, consumers[place]
