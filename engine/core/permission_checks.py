"""Checking that the user of a connection may do what its command asks for
(`engine.settings.permissions`).

Commands without a connection are those of the broker, of the configuration and of administrators,
and on some connections the configuration acts (`Connection.is_trusted`). They are not checked here,
and neither is what follows from a message that was accepted: copies of diverts, dead letters,
expired messages. Where an administrator moves messages is checked by
`engine.administration.move_targets`, which asks here; what else it asks for is checked by the
server. Whatever is refused is added to `Core.denials`, so that the caller can record it within
limits. Must never know the rules.
"""

from typing import Final

from daybook.engine.commands import Attach, AttachSender, RecordDenial, Send
from daybook.engine.core.core import Core
from daybook.engine.facts import details, events
from daybook.engine.links.links import ReceivingLink
from daybook.engine.names.names import DURABLE, INTERNAL, beside, host_and_name, plain
from daybook.engine.queues.consumer import Consumer, browsers_of, consumers_of
from daybook.engine.queues.queue import Queue
from daybook.engine.refusals import Code, Refusal, no_queue
from daybook.engine.settings.permissions import (
    BROWSE,
    CONSUME,
    CREATE_ADDRESS,
    CREATE_DURABLE_QUEUE,
    CREATE_NON_DURABLE_QUEUE,
    DELETE_DURABLE_QUEUE,
    DELETE_NON_DURABLE_QUEUE,
    SEND,
    Actor,
    Denial,
    Permissions,
)
from daybook.engine.state.state import State

SENDERS_MAX: Final = 10_000
"""For how many connections and destinations it is remembered that sends are allowed."""
DENIALS_MAX: Final = 1_000
"""How many refusals are kept until the caller has looked at them; more are only counted there."""
NAME_SHOWN_MAX: Final = 200
NOTHING: Final[dict[int, Queue]] = {}
WITHOUT_RULES: Final = Permissions({})
RULES_SHIFT: Final = 3
"""Looking for the rules within a pattern costs one unit for 2 to this power of them."""
VERBS: Final = {
    SEND: "send to",
    CONSUME: "consume from",
    BROWSE: "browse",
    CREATE_ADDRESS: "create",
    CREATE_DURABLE_QUEUE: "create a durable queue on",
    CREATE_NON_DURABLE_QUEUE: "create a non-durable queue on",
    DELETE_DURABLE_QUEUE: "delete a durable queue of",
    DELETE_NON_DURABLE_QUEUE: "delete a non-durable queue of",
}


def put_in_force(core: Core, permissions: Permissions | None) -> None:
    """Use other rules, None for none: then every user may do everything."""
    core.rights.permissions = permissions if permissions is not None and permissions.count else None
    core.rights.senders.clear()


def let_wildcards_follow(core: Core) -> None:
    """Let subscriptions with wildcards leave queues, and take from others, as rules in force say.

    To be called when nobody else may get what returns: who may not consume any more is closed.
    """
    core.wildcard_subscriptions.look_again_for_all(core.bundles.values())


def check(
    core: Core, connection: int, permission: str, address: str, queue: str | None = None
) -> Refusal | None:
    """Return why the user of a connection may not do something, None if it may."""
    permissions = core.rights.permissions
    peer = core.state.connections.get(connection)
    if permissions is None or peer is None or peer.is_trusted or core.rights.is_forwarding:
        return None
    place = rules_place(core.state, permissions, address)
    if permissions.syntax.is_pattern(place):
        core.budget.spent += permissions.count >> RULES_SHIFT
    if permissions.allows(peer.user, permission, place, queue):
        return None
    if len(core.rights.denials) < DENIALS_MAX:
        core.rights.denials.append(
            Denial(connection, peer.user, permission, address, queue or "", peer.peer)
        )
    return refusal(peer.user, permission, address, queue)


def actor_may(
    state: State,
    permissions: Permissions | None,
    actor: Actor,
    permission: str,
    address: str,
    queue: str | None,
) -> bool:
    """Whether an administrator has a permission at an address, or at one of its queues."""
    if permissions is None:
        if not actor.hosts:
            return True
        permissions = WITHOUT_RULES
    place = rules_place(state, permissions, address)
    return _is_on_host_of(actor, permissions, place) and permissions.allows(
        actor.user, permission, place, queue
    )


def actor_may_any(
    state: State,
    permissions: Permissions,
    actor: Actor,
    wanted: tuple[str, ...],
    address: str,
    queue: str | None,
) -> bool:
    """Whether an administrator has one of several permissions at one of very many places."""
    place = rules_place(state, permissions, address)
    return _is_on_host_of(actor, permissions, place) and permissions.allows_any(
        actor.user, wanted, place, queue
    )


def _is_on_host_of(actor: Actor, permissions: Permissions, place: str) -> bool:
    """Whether a place is on a virtual host that an administrator may use."""
    if not actor.hosts:
        return True
    # An action on the whole broker also concerns hosts that are not this user's.
    is_everywhere = place == permissions.syntax.any_words
    return not is_everywhere and host_and_name(place)[0] in actor.hosts


def check_actor(
    core: Core, actor: Actor | None, permission: str, address: str, queue: str | None
) -> Refusal | None:
    """Return why an administrator may not do something, None if it may; None is the operator of
    this machine, who may do everything."""
    if actor is None or actor_may(
        core.state, core.rights.permissions, actor, permission, address, queue
    ):
        return None
    if len(core.rights.denials) < DENIALS_MAX:
        core.rights.denials.append(
            Denial(0, actor.user, permission, address, queue or "", actor.peer)
        )
    return refusal(actor.user, permission, address, queue)


def rules_place(state: State, permissions: Permissions, name: str) -> str:
    """Return what the name of an address stands for: itself, or every name.

    Every name is meant by an address of the broker itself, which keeps what was sent to others, and
    by a wildcard address whose characters are not those of the rules, because these do not know
    which names it matches.
    """
    if not plain(name).startswith(INTERNAL):
        address = state.address_by_name.get(name)
        if address is None or not address.is_wildcard:
            return name
        if address.definition.syntax == permissions.syntax.of_names:
            return name
    return beside(name, permissions.syntax.any_words)


def refused_consumer(
    state: State, permissions: Permissions, consumer: Consumer, address: str = ""
) -> Refusal | None:
    """Return why a consumer may not consume, or browse; None if it may.

    For rules that are new, or another address that its queue is to be bound to.
    """
    queue = consumer.queue
    name = address or queue.address.name
    user = consumer.connection.user
    if consumer.connection.is_trusted:
        return None
    permission = BROWSE if consumer.browses else CONSUME
    if permissions.allows(user, permission, rules_place(state, permissions, name), queue.name):
        return None
    return refusal(user, permission, name, queue.name)


def refused_receiver(state: State, permissions: Permissions, link: ReceivingLink) -> Refusal | None:
    """Return why a user may not receive from a direct address, for rules that are new; None if it
    may."""
    address = link.address.name
    is_trusted = link.connection.is_trusted
    if is_trusted or permissions.allows(
        link.user, CONSUME, rules_place(state, permissions, address)
    ):
        return None
    return refusal(link.user, CONSUME, address)


def check_owner(core: Core, command: Attach | AttachSender) -> Refusal | None:
    """Refuse a link that the peer of a connector attaches, unless that has the rights of a user:
    the right of the configuration is for its own links."""
    peer = core.state.connections.get(command.connection)
    if peer is None or not peer.is_trusted or command.auto_link is not None:
        return None
    return Refusal(
        Code.NOT_ALLOWED,
        "a peer may attach no links on a connection that this broker opened; give the connector a"
        " user, whose rights they have",
    )


def may_consume(core: Core, user: str, queue: Queue, *, browses: bool) -> bool:
    """Whether a user may consume from a queue, or browse it, that nobody named: no denial."""
    return core.rights.permissions is None or _has(
        core, user, BROWSE if browses else CONSUME, queue
    )


def may_know(core: Core, user: str, queue: Queue) -> bool:
    """Whether a user may learn the name of a queue that it did not name itself."""
    return any(may_consume(core, user, queue, browses=browses) for browses in (False, True))


def may_know_address(core: Core, user: str, address: str) -> bool:
    """Whether a user may learn the name and the size of an address that it did not name itself."""
    permissions = core.rights.permissions
    if permissions is None:
        return True
    place = rules_place(core.state, permissions, address)
    return any(permissions.allows(user, each, place, None) for each in (SEND, CONSUME, BROWSE))


def refusal(
    user: str, permission: str, address: str, queue: str | None = None, *, stricter: str = ""
) -> Refusal:
    """Return the refusal of something that a user may not do; `stricter` is the rule that takes
    away what another one gives."""
    is_queue = queue is not None and queue != address
    place = f"queue '{_cut(queue or '')}' of address" if is_queue else "address"
    verb = VERBS.get(permission, "administer")
    if is_queue and permission in (CREATE_DURABLE_QUEUE, CREATE_NON_DURABLE_QUEUE):
        verb = "create"
    if is_queue and permission in (DELETE_DURABLE_QUEUE, DELETE_NON_DURABLE_QUEUE):
        verb = "delete"
    why = f"the permission {permission} is missing there"
    if stricter:
        why = (
            f"the rule '{_cut(address)}' gives the permission {permission}, but the stricter rule "
            f"'{_cut(stricter)}' does not"
        )
    return Refusal(
        Code.NOT_ALLOWED, f"user '{user}' may not {verb} {place} '{_cut(address)}'; {why}"
    )


def _cut(name: str) -> str:
    return name if len(name) <= NAME_SHOWN_MAX else name[:NAME_SHOWN_MAX] + "..."


def check_send(core: Core, command: Send) -> Refusal | None:
    """Return why a client may not send a message, None if it may. Call it only where there are
    rules.

    What the message would create is checked where it is created.
    """
    sender = (command.connection, command.address, command.queue)
    if sender in core.rights.senders:
        return None
    address = command.address
    if command.queue is not None and not address:
        queue = named_alone(core, command.connection, SEND, command.queue)
        if queue is None:
            return unknown(core, command.connection, SEND, command.queue)
        address, command.queue = queue.address.name, queue.name
    refused = check(core, command.connection, SEND, address, command.queue)
    # A queue that is named alone may be on another address by the next time.
    if refused is None and command.address:
        if len(core.rights.senders) >= SENDERS_MAX:
            core.rights.senders.clear()
        core.rights.senders.add(sender)
    return refused


def check_consumer(
    core: Core, command: Attach, address: str, queue: str | None, shown: str | None
) -> Refusal | None:
    """Return why a client may not consume from a queue, or browse it; None if it may.

    `shown` is the queue that it named, if any: a refusal names no other.
    """
    permission = BROWSE if command.browses else CONSUME
    refused = check(core, command.connection, permission, address, queue)
    if refused is None or shown == queue:
        return refused
    return refusal(core.state.connections[command.connection].user, permission, address, shown)


def check_new_queue(
    core: Core, connection: int, address: str, queue: str | None, *, durable: bool = True
) -> Refusal | None:
    """Return why a client may not create a queue, None if it may."""
    permission = CREATE_DURABLE_QUEUE if durable else CREATE_NON_DURABLE_QUEUE
    refused = check(core, connection, permission, address, queue)
    if refused is not None or queue is None or core.rights.permissions is None:
        return refused
    if core.rights.permissions.allots(address, queue):
        return None
    is_own = queue == address
    if is_own and not plain(queue).startswith(DURABLE):
        return None
    if plain(queue).startswith(DURABLE):
        return _refuse_durable(core, connection, permission, address, queue)
    if check(core, connection, permission, queue) is None:
        return None
    peer = core.state.connections[connection]
    return Refusal(
        Code.NOT_ALLOWED,
        f"user '{peer.user}' may not create queue '{_cut(queue)}' of address '{_cut(address)}';"
        f" no rule is for '{_cut(address)}::{_cut(queue)}', and for a name that is not the"
        f" address's own, the permission {permission} is missing at address '{_cut(queue)}'",
    )


def taken(core: Core, connection: int, queue: Queue, address: str) -> Refusal:
    """Refuse a name that a queue of another address has; where rules close addresses, without
    saying which."""
    hides = core.rights.permissions is not None and connection
    where = "on another address" if hides else f"on address '{queue.address.name}'"
    return Refusal(
        Code.ALREADY_EXISTS,
        f"queue '{queue.name}' is {where}, not on '{address}'; a queue's name is unique on its"
        " virtual host",
    )


def check_new_subscription(
    core: Core, connection: int, address: str, queue: str, *, durable: bool
) -> Refusal | None:
    """Return why a client may not create the queue of a named subscription, None if it may.

    Its name is free for everybody, as nobody loses it: `named_alone`.
    """
    permission = CREATE_DURABLE_QUEUE if durable else CREATE_NON_DURABLE_QUEUE
    return check(core, connection, permission, address, queue)


def _refuse_durable(
    core: Core, connection: int, permission: str, address: str, queue: str
) -> Refusal | None:
    """Refuse the name of a durable subscription for another queue of a client."""
    peer = core.state.connections.get(connection)
    if peer is None or peer.is_trusted or core.rights.is_forwarding:
        return None
    return Refusal(
        Code.NOT_ALLOWED,
        f"user '{peer.user}' may not create queue '{_cut(queue)}': names that begin with"
        f" '{DURABLE}' are those of durable subscriptions; subscribe durably, or ask for a rule"
        f" that gives {permission} for '{_cut(address)}::{_cut(queue)}'",
    )


def named_alone(
    core: Core, connection: int, permission: str, name: str, address: str = ""
) -> Queue | None:
    """Return the queue that a client means by a name without an address, None if there is none for
    which it has a permission.

    Several durable subscriptions may have one name if no client may use all of them (ADR 77). Of
    those that it may use, the one on `address` comes first, then one that its user made.
    """
    state = core.state
    others = state.numbered.get(name, NOTHING)
    first = state.queue_by_name.get(name)
    peer = state.connections.get(connection)
    found = [*([first] if first is not None else []), *others.values()]
    core.budget.spent += len(others)
    is_free = peer is None or peer.is_trusted or core.rights.is_forwarding
    if core.rights.permissions is not None and not is_free:
        assert peer is not None
        found = [each for each in found if _has(core, peer.user, permission, each)]
    if len(found) < 2:
        return found[0] if found else None
    user = peer.user if peer is not None else ""

    def rank(queue: Queue) -> tuple[bool, bool, int]:
        return queue.address.name != address, queue.definition.user != user, queue.id

    return min(found, key=rank)


def _has(core: Core, user: str, permission: str, queue: Queue) -> bool:
    assert core.rights.permissions is not None
    place = rules_place(core.state, core.rights.permissions, queue.address.name)
    return core.rights.permissions.allows(user, permission, place, queue.name)


def unknown(core: Core, connection: int, permission: str, name: str) -> Refusal:
    """Refuse to use a queue that a client names without an address.

    The answer is the same whether there is none or the client may not use it, and so is the event
    that records it, which clients could notice by the ids of messages.
    """
    peer = core.state.connections.get(connection)
    if core.rights.permissions is None or peer is None:
        return no_queue(_cut(name))
    if len(core.rights.denials) < DENIALS_MAX:
        closed = core.state.queue_by_name.get(name)
        address = closed.address.name if closed is not None else ""
        core.rights.denials.append(
            Denial(connection, peer.user, permission, address, name, peer.peer)
        )
    verb = "delete" if permission == DELETE_DURABLE_QUEUE else VERBS[permission]
    return Refusal(
        Code.NOT_ALLOWED,
        f"user '{peer.user}' may not {verb} queue '{_cut(name)}', or there is none;"
        f" the permission {permission} is missing there, or the name is wrong",
    )


def check_new_address(core: Core, connection: int, address: str) -> Refusal | None:
    """Return why a client may not create an address or change its routing types."""
    return check(core, connection, CREATE_ADDRESS, address)


def check_rebinding(core: Core, connection: int, queue: Queue, target: str) -> Refusal | None:
    """Return why a client may not bind the queue of a durable subscription to another address.

    The messages of the queue go along, so the client must be allowed to consume them where they
    are, and to end that subscription. Its consumers get those of the target from then on, so all of
    them must be allowed to.
    """
    permissions = core.rights.permissions
    if permissions is None:
        return None
    refused = check(core, connection, CONSUME, queue.address.name, queue.name)
    refused = refused or check_deletion(core, connection, queue)
    for consumer in (*consumers_of(queue), *browsers_of(queue)) if refused is None else ():
        core.budget.spent += 1
        why = refused_consumer(core.state, permissions, consumer, target)
        if why is not None:
            return Refusal(Code.NOT_ALLOWED, f"the subscription has another consumer: {why.text}")
    return refused


def check_deletion(core: Core, connection: int, queue: Queue) -> Refusal | None:
    """Return why a client may not delete a queue, None if it may."""
    durable = queue.definition.durable
    permission = DELETE_DURABLE_QUEUE if durable else DELETE_NON_DURABLE_QUEUE
    return check(core, connection, permission, queue.address.name, queue.name)


def record(core: Core, command: RecordDenial) -> int:
    """Record that something was refused for want of a permission."""
    detail = details.PermissionRefusedDetail(
        user=command.user, permission=command.permission, address=command.address,
        queue=command.queue, peer=command.peer, count=command.count,
    )  # fmt: skip
    known = command.connection if command.connection in core.state.connections else 0
    # Names, not ids: the address may not exist, and its id may be another's by the time of reading.
    return core.emit(
        events.row(events.PERMISSION_REFUSED, connection=known, time=core.now),
        events.encode_detail(detail),
    )
