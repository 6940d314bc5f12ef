"""The addresses and queues for messages that were not delivered, expired, or found no queue.

A target address needs a queue that stays. Settings may ask for one queue for each address that
messages come from (`auto-create-dead-letter-resources`, `auto-create-expiry-resources`): its name
has the name of that address between a prefix and a suffix, and its filter lets only those in. Must
never know why a message goes there.
"""

from hashlib import sha256
from typing import Final, NamedTuple

from daybook.engine.core import hosts
from daybook.engine.core.core import Core
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, QueueDefinition
from daybook.engine.facts.own_headers import ORIGINAL_ADDRESS
from daybook.engine.names import names
from daybook.engine.queues.queue import Address
from daybook.engine.settings.settings import CUT_MARK, AddressSettings
from daybook.engine.topology.topology import (
    check_address_name,
    check_queue,
    create_address,
    create_queue,
    find_address,
    require_queue,
    update_routing_types,
)

DIGEST_CHARACTERS: Final = 16


class Resources(NamedTuple):
    """Whether a queue is created for each address of origin, and what stands around its name."""

    wanted: bool
    prefix: str
    suffix: str


PLAIN: Final = Resources(wanted=False, prefix="", suffix="")
"""No queue for each address of origin."""


def for_dead_letters(settings: AddressSettings) -> Resources:
    """Return how queues for dead letters are created."""
    return Resources(
        settings.auto_create_dead_letter_resources,
        settings.dead_letter_queue_prefix,
        settings.dead_letter_queue_suffix,
    )


def for_expired(settings: AddressSettings) -> Resources:
    """Return how queues for expired messages are created."""
    return Resources(
        settings.auto_create_expiry_resources,
        settings.expiry_queue_prefix,
        settings.expiry_queue_suffix,
    )


def queue_name(resources: Resources, origin: str) -> str:
    """Return the name of the queue for messages from an address.

    A name that would be too long is cut, and has a digest of the whole name instead of the rest.
    """
    name = f"{resources.prefix}{origin}{resources.suffix}"
    excess = names.length(name) - names.NAME_BYTES_MAX
    if excess <= 0:
        return name
    digest = sha256(origin.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARACTERS]
    kept = names.length(origin) - excess - len(CUT_MARK + digest)
    # Whole characters only.
    begin = origin.encode("utf-8", "surrogatepass")[:kept].decode("utf-8", "ignore")
    return f"{resources.prefix}{begin}{CUT_MARK}{digest}{resources.suffix}"


def origin_filter(origin: str) -> str:
    """Return the filter that lets only messages from an address in."""
    quoted = origin.replace("'", "''")
    return f"{ORIGINAL_ADDRESS} = '{quoted}'"


def home(core: Core, target: str, origin: str, resources: Resources) -> Address | str:
    """Return a target address with a queue that stays, or the reason why there is none.

    A missing one is created: the queue of the address of origin if that is wanted, else an anycast
    queue named as the target. One more queue is better than dropping messages that nobody asked to
    drop.
    """
    # With nothing around it the name would be that of the address, whose own queue may need it.
    if resources.wanted and (resources.prefix or resources.suffix):
        name = queue_name(resources, names.plain(origin))
        return _home_of(core, target, origin, names.beside(origin, name))
    address = find_address(core, target)
    bound = address.queues() if address is not None else []
    if all(queue.definition.temporary for queue in bound):
        refusal = check_queue(core, target, target, ANYCAST)
        if refusal is not None:
            return refusal.text
        require_queue(core, target, target, ANYCAST, 0)
        address = find_address(core, target)
    assert address is not None
    return address


def _home_of(core: Core, target: str, origin: str, name: str) -> Address | str:
    """Do the same with the queue for an address of origin."""
    found = core.state.queue_by_name.get(name)
    if found is not None:
        if found.address.name == target:
            return found.address
        return f"queue '{name}' is on address '{found.address.name}', not on '{target}'"
    address = find_address(core, target)
    syntax = core.state.settings.syntax
    # Not a new name in the sense of `check_name`: the address has it already.
    wrong = names.wrong_to_spell(names.plain(name), syntax)
    if wrong is not None:
        return f"'{name}' is not a name for a queue: {wrong}"
    if address is None:
        refusal = check_address_name(hosts.local(core, target), (MULTICAST,), syntax)
        if refusal is not None:
            return refusal.text
    if address is None:
        address = create_address(core, target, (MULTICAST,), 0, reasons.ON_DEMAND)
    elif MULTICAST not in address.definition.routing_types:
        types = tuple(sorted((*address.definition.routing_types, MULTICAST)))
        update_routing_types(core, address, types, 0, reasons.ON_DEMAND)
    definition = QueueDefinition(
        name=name, routing_type=MULTICAST, filter=origin_filter(names.plain(origin)),
        auto_created=True,
    )  # fmt: skip
    create_queue(core, address, definition, 0, reasons.ON_DEMAND)
    return address
