"""Invariants of every state that the journal can lead to; checked after a fold, before serving.

Only reads a `State`, in time proportional to its size. It finds no causes: for each violation an
event was decided or applied wrongly.
"""

from collections import Counter
from collections.abc import Iterator

from daybook.engine.facts.definitions import OWN_PROTOCOL
from daybook.engine.facts.events import PERSISTENT
from daybook.engine.messages.message import PRIORITIES
from daybook.engine.names.names import host_and_name
from daybook.engine.queues.consumer import (
    BUNDLED_BYTES,
    Consumer,
    browsers_of,
    consumer_of,
    consumers_of,
)
from daybook.engine.queues.entry import (
    HELD_LEVEL,
    IN_FLIGHT,
    LEVELS,
    READY,
    SCHEDULED_LEVEL,
    SHOWN_BYTES,
    Entry,
)
from daybook.engine.queues.level import Level, position_of
from daybook.engine.queues.paged_range import PagedRange
from daybook.engine.queues.queue import PAST_ALL, Queue
from daybook.engine.state.state import State


def check(state: State) -> list[str]:
    """Describe everything that contradicts itself in a state, a sentence each; empty if nothing
    does."""
    found = [
        *_names(state),
        *_bindings(state),
        *_peers(state),
        *_temporaries(state),
        *_remembered(state),
        *_histories(state),
        *_retained(state),
        *_weights(state),
    ]
    for queue in state.queues.values():
        found.extend(_entries(queue))
        found.extend(_order(queue))
        found.extend(_oldest(queue))
    for consumer in state.consumers.values():
        found.extend(_in_flight(consumer))
    return found


def _names(state: State) -> Iterator[str]:
    """Maps by name hold exactly what the maps by id hold, and the counters are ahead of all ids."""
    addresses = {address.name: address for address in state.addresses.values()}
    if addresses != state.address_by_name or len(addresses) != len(state.addresses):
        yield "the addresses by name are not the addresses by id"
    named = [queue for queue in state.queues.values() if not queue.deleting]
    queues = {queue.name: queue for queue in named}
    if queues != state.queue_by_name or len(queues) != len(named):
        yield "the queues by name are not the queues by id"
    if any(number >= state.next_address or number < 1 for number in state.addresses):
        yield f"the next address would be {state.next_address}, and there is a later one"
    if any(number >= state.next_queue or number < 1 for number in state.queues):
        yield f"the next queue would be {state.next_queue}, and there is a later one"
    refusing = {queue.id for queue in named if queue.definition.no_local}
    if state.without_own.keys() != refusing:
        yield "the list of queues without messages of their own connection is wrong"
    if state.paused.keys() != {queue.id for queue in named if queue.paused}:
        yield "the list of paused queues is wrong"
    paused = {number for number, each in state.addresses.items() if each.definition.paused}
    if state.paused_addresses.keys() != paused:
        yield "the list of paused addresses is wrong"
    for number, address in state.addresses.items():
        if address.host != host_and_name(address.name)[0]:
            yield f"address '{address.name}' is on host {address.host}"
        if address.id != number or not address.definition.routing_types:
            yield f"address {number} is kept as '{address.name}', id {address.id}, incomplete"
    for number, queue in state.queues.items():
        if queue.address.host != host_and_name(queue.name)[0]:
            yield f"queue '{queue.name}' is on address '{queue.address.name}' of another host"
        if queue.id != number:
            yield f"queue {number} is kept under the id {queue.id}"


def _bindings(state: State) -> Iterator[str]:
    """Each queue is bound once, to the address that it names, by a routing type of that address."""
    bound: dict[int, int] = {}
    for address in state.addresses.values():
        bindings = [*address.anycast, *address.multicast]
        for binding in bindings:
            queue = binding.queue
            bound[queue.id] = bound.get(queue.id, 0) + 1
            if queue.binding is not binding or binding.address != address.name:
                yield f"address '{address.name}' has a binding to '{queue.name}' of another place"
            if queue.address is not address or state.queues.get(queue.id) is not queue:
                yield f"address '{address.name}' has a binding to '{queue.name}', which has not"
        alone = bindings[0] if len(bindings) == len(address.anycast) == 1 else None
        only_queue = alone.queue if alone is not None and alone.is_open else None
        if address.only_queue is not only_queue:
            yield f"address '{address.name}' has the wrong queue for what needs no choice"
        if address.open_queue is not (None if address.guarded else address.only_queue):
            yield f"address '{address.name}' is open although it is guarded, or the reverse"
    for queue in state.queues.values():
        if queue.deleting:
            if bound.get(queue.id):
                yield f"queue '{queue.name}' is being deleted and still bound"
            continue
        if state.addresses.get(queue.address.id) is not queue.address:
            yield f"queue '{queue.name}' is on address '{queue.address.name}', which does not exist"
        if bound.get(queue.id, 0) != 1:
            yield f"queue '{queue.name}' has {bound.get(queue.id, 0)} bindings, not one"
        elif queue.binding not in queue.address.bindings(queue.definition.routing_type):
            kind = queue.definition.routing_type
            yield f"queue '{queue.name}' is {kind} and bound as something else"
        if queue.definition.routing_type not in queue.address.definition.routing_types:
            yield f"queue '{queue.name}' is {queue.definition.routing_type}, its address is not"


def _remembered(state: State) -> Iterator[str]:
    """Each address remembers every id once, and no more of them than it may."""
    for address in state.addresses.values():
        ids = address.ids
        if ids is None:
            continue
        size = state.settings.resolve(address.name).id_cache_size
        if not ids.is_sound():
            yield f"address '{address.name}' looks up other ids than it lists"
        if ids.count > size:
            yield f"address '{address.name}' remembers {ids.count} ids, and its limit is {size}"


def _histories(state: State) -> Iterator[str]:
    """Histories are listed by the state and their addresses, and recalls are listed until they
    end."""
    named = {
        number: queue
        for number, queue in state.queues.items()
        if queue.definition.keeps and not queue.deleting
    }
    if state.histories != named:
        yield "the histories that are listed are not those that there are"
    listed = [each for a in state.addresses.values() for each in a.histories.values()]
    if sorted(queue.id for queue in listed) != sorted(named):
        yield "the histories of all addresses are not those that there are"
    for number, queue in state.queues.items():
        if (queue.recall is not None) != (number in state.recalling):
            yield f"queue '{queue.name}' waits for history and is not listed, or the reverse"
        if queue.recall is not None and queue.recall.position > queue.recall.until:
            yield f"queue '{queue.name}' has history from after its creation"
        if queue.definition.keeps and queue.in_flight_count:
            yield f"queue '{queue.name}' is a history, and something of it is in flight"


def _retained(state: State) -> Iterator[str]:
    """An address retains one message at most, and none that does not exist or is elsewhere."""
    for queue in state.histories.values():
        if not queue.retains:
            continue
        found = [entry.message.address_id for entry in queue.entries.values()]
        if len(found) != len(set(found)):
            yield "an address retains more than one message"
        for number in found:
            address = state.addresses.get(number)
            if address is None or address.host != queue.address.host:
                yield f"queue '{queue.name}' has a message of an address that is not on its host"


def _peers(state: State) -> Iterator[str]:
    """Connections, consumers and queues agree on what belongs to what."""
    for consumer in state.consumers.values():
        if state.connections.get(consumer.connection_id) is not consumer.connection:
            yield f"consumer {consumer.id} is on connection {consumer.connection_id}, which is gone"
        if consumer.connection.consumers.get(consumer.id) is not consumer:
            yield f"consumer {consumer.id} is unknown to its connection"
        if state.queues.get(consumer.queue.id) is not consumer.queue:
            yield f"consumer {consumer.id} takes from '{consumer.queue.name}', which does not exist"
        is_own = consumer.connection.protocol == OWN_PROTOCOL
        if not is_own and consumer.connection.host != consumer.queue.address.host:
            yield f"consumer {consumer.id} takes from '{consumer.queue.name}' of another host"
    attached = [
        consumer
        for queue in state.queues.values()
        for consumer in (*consumers_of(queue), *browsers_of(queue))
    ]
    if state.browser_count != sum(consumer.browses for consumer in attached):
        yield f"the state counts {state.browser_count} browsers"
    yield from _same_consumers("queues", attached, state)
    by_connection = [c for peer in state.connections.values() for c in peer.consumers.values()]
    yield from _same_consumers("connections", by_connection, state)
    for queue in state.queues.values():
        if queue.selective_count != sum(each.is_selective for each in queue.consumers):
            yield f"queue '{queue.name}' counts {queue.selective_count} selective consumers"
        if (state.waiting.get(queue.id) is queue) != (queue.waits_since > 0 and not queue.deleting):
            yield f"queue '{queue.name}' waits for consumers and is not listed, or the reverse"
        if queue.waits_since and not queue.consumers:
            yield f"queue '{queue.name}' waits for more consumers and has none"
        if queue.prioritized_count != sum(each.priority != 0 for each in queue.consumers):
            yield f"queue '{queue.name}' counts {queue.prioritized_count} prioritized consumers"
        if queue.holder is not None and queue.holder not in queue.consumers:
            yield f"queue '{queue.name}' has an exclusive consumer that is gone"
        wanting = [consumer for consumer in queue.consumers if consumer.exclusive]
        if wanting and queue.holder is not wanting[0]:
            yield f"queue '{queue.name}' does not have its first exclusive consumer as the holder"
        if any(each.browses for each in queue.consumers) or not all(
            each.browses for each in queue.browsers
        ):
            yield f"queue '{queue.name}' takes a browser for a consumer, or the reverse"
        if any(each.unacked for each in queue.browsers):
            yield f"queue '{queue.name}' has delivered a message to a browser"
        if any(each.queue is not queue for each in (*consumers_of(queue), *browsers_of(queue))):
            yield f"queue '{queue.name}' has a consumer that takes from another"
        owner = queue.definition.owner
        if queue.definition.temporary and not queue.deleting and owner not in state.connections:
            yield f"queue '{queue.name}' is temporary, and its owner {owner} is gone"


def _temporaries(state: State) -> Iterator[str]:
    """Temporary destinations are known by their connection, and without it they have no queues.

    They themselves are deleted by the events that follow.
    """
    for address in state.addresses.values():
        owner = address.owner
        if owner and state.temporaries.get(owner, {}).get(address.id) is not address:
            yield f"address '{address.name}' is not listed for connection {owner}"
        if owner and owner not in state.connections and address.queues():
            yield f"address '{address.name}' has queues, and connection {owner} is gone"
    count = sum(map(len, state.temporaries.values()))
    if count != sum(1 for address in state.addresses.values() if address.owner):
        yield f"{count} temporary destinations are listed, and there are others"


def _same_consumers(where: str, found: list[Consumer], state: State) -> Iterator[str]:
    if sorted(consumer.id for consumer in found) != sorted(state.consumers):
        yield f"the consumers of all {where} are not the consumers there are"


def _entries(queue: Queue) -> Iterator[str]:
    """Every entry is in a level or in flight to one consumer, and the counts agree."""
    standing = [0] * LEVELS
    transient = 0
    for message_id, entry in queue.entries.items():
        where = f"message {message_id} in queue '{queue.name}'"
        if entry.message.id != message_id:
            yield f"{where} is message {entry.message.id}"
        if entry.state == READY:
            standing[entry.level] += 1
            if (entry.due > 0) != (entry.level == SCHEDULED_LEVEL):
                yield f"{where} is in level {entry.level} and due at {entry.due}"
            if entry.consumer is not None:
                yield f"{where} is ready and in flight to consumer {entry.consumer.id}"
            if entry.linked == (message_id in queue.withheld):
                yield f"{where} is ready and has no place in the queue"
        elif entry.state == IN_FLIGHT:
            yield from _delivered(where, queue, entry)
        else:
            yield f"{where} is in state {entry.state}, which entries of a queue never have"
        if not entry.message.flags & PERSISTENT:
            transient += 1
    size = sum(entry.message.size for entry in queue.entries.values())
    for level, paged in queue.paged_ranges():
        standing[level] += paged.count
        transient += paged.transients
        size += paged.bytes
    for what, counted, found in (
        ("ready", queue.ready_count, sum(standing[:PRIORITIES])),
        ("held", queue.held_count, standing[HELD_LEVEL]),
        ("scheduled", queue.scheduled_count, standing[SCHEDULED_LEVEL]),
    ):
        if counted != found:
            yield f"queue '{queue.name}' counts {counted} {what} messages and has {found}"
    if size != queue.bytes:
        yield f"queue '{queue.name}' counts {queue.bytes} bytes and has {size}"
    if transient != queue.transient_count:
        yield (
            f"queue '{queue.name}' counts {queue.transient_count} non-persistent messages and has "
            f"{transient}"
        )


def _delivered(where: str, queue: Queue, entry: Entry) -> Iterator[str]:
    consumer = consumer_of(entry)
    if consumer is None:
        yield f"{where} is in flight to nobody"
    elif consumer.queue is not queue or consumer.unacked.get(entry.message.id) is not entry:
        yield f"{where} is in flight to consumer {consumer.id}, which does not have it"
    if entry.delivery_count < 1:
        yield f"{where} is in flight and was never delivered"


def _order(queue: Queue) -> Iterator[str]:
    """Levels hold entries of their priority in the order of arrival, and tombstones are counted."""
    linked = len(queue.withheld)
    for number, level in enumerate(queue.levels):
        if level is None:
            continue
        tombstones = 0
        for part in _parts(level):
            yield from _part(queue, number, part)
            linked += sum(entry.state == READY for entry in part)
            tombstones += sum(entry.state != READY for entry in part)
        paged = level.paged
        if number < PRIORITIES and (level.linked_count or (paged is not None and paged.count)):
            yield from _is_occupied(queue, number)
        if paged is not None:
            yield from _paged_range(queue, number, level, paged)
        elif level.end is not level.head:
            yield f"level {number} of queue '{queue.name}' has a tail and no paged range"
        if tombstones != level.tombstones:
            where = f"level {number} of queue '{queue.name}'"
            yield f"{where} counts {level.tombstones} tombstones and has {tombstones}"
    known = queue.ready_count + queue.aside_count
    if linked + queue.paged_count != known:
        yield f"queue '{queue.name}' counts {known} messages in levels and lists {linked}"
    counted = sum(paged.count for _, paged in queue.paged_ranges())
    if counted != queue.paged_count:
        yield f"queue '{queue.name}' counts {queue.paged_count} paged messages and has {counted}"


def _oldest(queue: Queue) -> Iterator[str]:
    """The ready entry that is known as the oldest is that; only the store may know an older one."""
    if not queue.oldest:
        return
    levels = [level for level in queue.levels[:PRIORITIES] if level is not None]
    ready = [each for level in levels for part in _parts(level) for each in part]
    first = min((each.position for each in ready if each.state == READY), default=PAST_ALL)
    ranges = [level.paged for level in levels if level.paged is not None and level.paged.count]
    first = min(first, *(paged.first or PAST_ALL for paged in ranges), PAST_ALL)
    if queue.oldest == first or (
        queue.oldest < first
        and any(not paged.first and paged.after < queue.oldest <= paged.until for paged in ranges)
    ):
        return
    yield f"queue '{queue.name}' takes {queue.oldest} for its oldest ready message, not {first}"


def _parts(level: Level) -> list[list[Entry]]:
    """Return the parts that must be in order: lines as they are, and islands, sorted."""
    runs = [level.head] if level.paged is None else [level.head, level.end]
    parts = [list(run.line) for run in runs]
    parts += [list(run.back) for run in runs]
    if level.paged is not None:
        parts.append(sorted(level.paged.islands, key=position_of))
    return parts


def _part(queue: Queue, priority: int, part: list[Entry]) -> Iterator[str]:
    last = -1
    for entry in part:
        message = entry.message
        where = f"message {message.id} in level {priority} of queue '{queue.name}'"
        if entry.level != priority or not entry.linked:
            yield f"{where} does not belong there"
        if entry.state != READY:
            continue
        if queue.entries.get(message.id) is not entry:
            yield f"{where} is not in the queue"
        elif entry.position <= last:
            yield f"{where} stands behind a later one"
        else:
            last = entry.position


def _is_occupied(queue: Queue, priority: int) -> Iterator[str]:
    if not queue.occupied & (1 << priority):
        yield f"level {priority} of queue '{queue.name}' is taken for empty"


def _paged_range(queue: Queue, priority: int, level: Level, paged: PagedRange) -> Iterator[str]:
    """A paged range is between the head and the tail of its level, and its islands in it."""
    where = f"the paged range in level {priority} of queue '{queue.name}'"
    if paged.count < 0 or paged.transients < 0 or paged.transients > paged.count:
        yield f"{where} counts {paged.count} messages, of which {paged.transients} non-persistent"
    for name, part, low, high in (
        ("head", level.head.ready(), 0, paged.after),
        ("islands", paged.islands, paged.after + 1, paged.until),
        ("tail", level.end.ready(), paged.until, PAST_ALL),
    ):
        for entry in part:
            if entry.state == READY and not low <= entry.position <= high:
                yield f"{where}: message {entry.message.id} is in the {name}, out of its place"


def _weights(state: State) -> Iterator[str]:
    """The counts of users, names and memory are right."""
    # A queue that is being deleted has neither a name nor an owner any more.
    queues = [queue for queue in state.queues.values() if not queue.deleting]
    names = [queue.name for queue in queues]
    names += [address.name for address in state.addresses.values()]
    if state.names_length != sum(map(len, names)):
        yield f"the names of all addresses and queues have not {state.names_length} characters"
    users = (queue.definition.user for queue in queues)
    if state.queues_of != Counter(filter(None, users)):
        yield "the counts of queues by user are not those of the queues there are"
    if state.connections_of != Counter(peer.user for peer in state.connections.values()):
        yield "the counts of connections by user are not those of the connections there are"
    on_hosts = (
        (state.connections_on, Counter(peer.host for peer in state.connections.values())),
        (state.addresses_on, Counter(address.host for address in state.addresses.values())),
        (state.queues_on, Counter(queue.address.host for queue in queues)),
    )
    for counted, found in on_hosts:
        if counted != found:
            yield f"counts of virtual hosts are {counted}, not {dict(found)}"
    for queue in state.queues.values():
        weight = sum(entry.message.weight for entry in queue.entries.values())
        if queue.weight != weight:
            yield f"queue '{queue.name}' counts {queue.weight} bytes in memory, not {weight}"
    for connection in state.connections.values():
        weight = sum(
            entry.message.weight
            for consumer in connection.consumers.values()
            for entry in consumer.unacked.values()
        )
        shown = sum(len(consumer.shown) for consumer in connection.consumers.values())
        bundled = sum(len(bundle.order) for bundle in connection.bundles.values())
        if connection.shown_bytes != shown * SHOWN_BYTES + bundled * BUNDLED_BYTES:
            yield f"connection {connection.id} does not count the {shown} messages it was shown"
        weight += connection.shown_bytes + connection.forwarded_bytes
        if connection.unacked_bytes != weight:
            wrong = f"{connection.unacked_bytes} bytes in flight, not {weight}"
            yield f"connection {connection.id} counts {wrong}"


def _in_flight(consumer: Consumer) -> Iterator[str]:
    """Each delivery in flight to a consumer is in its queue, and the entry agrees."""
    for message_id, entry in consumer.unacked.items():
        if entry.consumer is not consumer or entry.state != IN_FLIGHT:
            yield f"consumer {consumer.id} holds message {message_id}, which is not in flight to it"
        if consumer.queue.entries.get(message_id) is not entry:
            yield f"consumer {consumer.id} holds message {message_id}, which is not in its queue"
