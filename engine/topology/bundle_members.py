"""Deciding when bundles begin and end, and whose turn it is when their credit returns (ADR 60).

Must never know how queues are found for them (`engine.state.wildcard_subscriptions`), or how
members attach (`engine.consumers.bundle_subscriptions`).
"""

from typing import Final

from daybook.engine.commands import Attach
from daybook.engine.core.core import Core
from daybook.engine.effects import Browsed
from daybook.engine.facts import details, events
from daybook.engine.facts.definitions import ANYCAST, AddressDefinition, QueueDefinition
from daybook.engine.facts.settlements import ack_mode_of
from daybook.engine.names.names import HOST
from daybook.engine.queues.consumer import Bundle, Connection, Consumer
from daybook.engine.queues.queue import Address, Queue

TEXT_SHIFT: Final = 8
"""Journaling the texts of a subscription costs one unit of the budget for 2 to this power of their
characters."""


def first_in_line(core: Core) -> dict[int, Queue]:
    """Return the touched queues, and before them one of each bundle whose credit returned: that of
    the member that waits longest.

    The bundle stays among the refilled ones as long as it has credit and members that wait.
    """
    first: dict[int, Queue] = {}
    for bundle in list(core.refilled.values()):
        if not (bundle.waiting and bundle.has_credit):
            del core.refilled[bundle.id]
            continue
        number, consumer = next(iter(bundle.waiting.items()))
        del bundle.waiting[number]
        first[consumer.queue.id] = consumer.queue
    core.budget.spent += len(first)
    return {**first, **core.touched} if first else core.touched


def left(core: Core, consumer: Consumer) -> None:
    """Note that a member was detached; a bundle that can get nothing more ends with its last one.

    What it had in flight was returned before.
    """
    bundle = consumer.bundle
    assert bundle is not None
    bundle.leave(consumer)
    if bundle.is_short and bundle.is_open and not bundle.is_told:
        core.wildcard_subscriptions.look_again(bundle)
    if bundle.reading.pop(consumer.id, None) is not None:
        end_if_read(core, bundle)
    if bundle.is_told and not bundle.members and bundle.is_open:
        end(core, bundle)


def tell_end(core: Core, consumer: Consumer) -> None:
    """Tell a browser that it has read its queue; a bundle once it has read all of them."""
    bundle = consumer.bundle
    if bundle is None:
        core.effects.append(Browsed(consumer))
    elif bundle.reading.pop(consumer.id, None) is not None:
        end_if_read(core, bundle)


def end_if_read(core: Core, bundle: Bundle) -> None:
    """Tell a browser of several queues that it has read all of them, if it has."""
    is_read = not bundle.reading and not bundle.is_sought
    if not is_read or bundle.is_told or not bundle.is_open:
        return
    if bundle.patterns and not bundle.ends:
        # It listens for queues to come.
        return
    bundle.is_told = True
    core.effects.append(Browsed(_speaker(bundle)))


def _speaker(bundle: Bundle) -> Consumer:
    """Return a consumer that stands for a bundle, which may have no members."""
    name = bundle.patterns[0] if bundle.patterns else bundle.subscription
    address = Address(0, AddressDefinition(host=HOST, name=name, routing_types=(ANYCAST,)))
    queue = Queue(0, QueueDefinition(name=name, routing_type=ANYCAST), address)
    speaker = Consumer(bundle.id, bundle.connection, queue)
    speaker.receiver = bundle.receiver
    return speaker


def begin(
    core: Core, connection: Connection, parts: list[Attach], patterns: tuple[str, ...]
) -> Bundle:
    """Record that a subscription to several queues begins; its members attach next."""
    template = parts[0]
    detail = details.BundleOpenedDetail(
        subscription=template.subscription,
        destinations=tuple(each.queue or each.address for each in parts),
        ack_mode=ack_mode_of(acknowledges=template.acknowledges, cumulative=template.cumulative),
        filter=template.filter,
    )
    core.budget.spent += len(template.filter) >> TEXT_SHIFT
    number = core.emit(
        events.row(events.BUNDLE_OPENED, connection=connection.id, time=core.now),
        events.encode_detail(detail),
    )
    bundle = Bundle(number, connection, template, patterns, core.refilled)
    core.bundles[number] = bundle
    connection.bundles[number] = bundle
    return bundle


def end(core: Core, bundle: Bundle) -> int:
    """Record that a bundle without members ends."""
    drop(core, bundle)
    connection = bundle.connection
    del connection.bundles[bundle.id]
    return core.emit(
        events.row(events.BUNDLE_CLOSED, connection=connection.id, related=bundle.id, time=core.now)
    )


def drop(core: Core, bundle: Bundle) -> None:
    """Let a bundle find nothing more; what its members have in flight can still be settled."""
    if bundle.is_open:
        bundle.is_open = False
        core.wildcard_subscriptions.remove(bundle)
    core.bundles.pop(bundle.id, None)
    core.refilled.pop(bundle.id, None)
