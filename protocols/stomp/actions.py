"""What each command but SEND and CONNECT does, in all versions.

Each function carries out one frame on its session and answers the LSN that its receipt waits for.
Must never know bytes.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from engine.commands import (
    Acknowledge,
    Attach,
    Begin,
    CloseConnection,
    Commit,
    DeleteSubscription,
    Detach,
    Reject,
    Rollback,
)
from engine.events import CLOSED
from engine.refusals import Code, Refusal
from protocols.stomp import states
from protocols.stomp.errors import StompError, UnknownDelivery, shortened
from protocols.stomp.frames import Head, required, truth
from protocols.stomp.subscribing import SubscribeRequest, subscription_key
from protocols.stomp.subscription import Subscription
from protocols.stomp.versions import V10, V12

if TYPE_CHECKING:
    from protocols.stomp.conversation import Conversation

MESSAGE_ID_DIGITS_MAX: Final = 20
"""Ids of messages are unsigned 64-bit numbers."""


def subscribe(session: "Conversation", head: Head, now: int) -> int:
    """SUBSCRIBE: attach a consumer whose receiver is a Subscription."""
    request = SubscribeRequest(head, session.version != V10, session.options)
    if request.key in session.by_key:
        raise StompError(
            f"subscription {request.key[0]} {shortened(request.key[1])} exists on this"
            " connection already",
            "give every subscription an id of its own, or UNSUBSCRIBE first",
        )
    if len(session.by_key) >= session.options.max_subscriptions:
        raise StompError(
            f"more than {session.options.max_subscriptions} subscriptions on this connection",
            "use fewer, or raise max-subscriptions in the broker's configuration",
        )
    subscription = Subscription(session, session.serials + 1, request)
    command: Attach = request.attach(session.connection, subscription)
    subscription.consumer = answer = session.do(command, now)
    session.serials += 1
    session.by_key[request.key] = subscription
    if session.version == V12 and subscription.acknowledges:
        session.by_serial[b"%d" % subscription.serial] = subscription
    return answer


def unsubscribe(session: "Conversation", head: Head, now: int) -> int:
    """UNSUBSCRIBE: detach; with persistent:true delete the durable subscription."""
    delete = truth(head, "persistent", False)
    name = head.values.get("id")
    if session.version != V10 or delete or name is not None:
        key = subscription_key(required(head, "id"), "")
    else:
        key = subscription_key(None, required(head, "destination"))
    subscription = session.by_key.pop(key, None)
    if subscription is None:
        if not delete:
            raise StompError(
                f"no subscription with {key[0]} {shortened(key[1])} on this connection",
                "give the header of a SUBSCRIBE that was sent on this connection",
            )
        return session.do(DeleteSubscription(key[1]), now)
    session.by_serial.pop(b"%d" % subscription.serial, None)
    subscription.is_open = False
    if session.latest is subscription:
        session.latest = None
    deletes_own = delete and subscription.is_durable
    answer = session.do(Detach(subscription.consumer, deletes_own), now)
    if delete and not deletes_own:
        answer = session.do(DeleteSubscription(key[1]), now)
    return answer


def settle(session: "Conversation", head: Head, now: int) -> int:
    """ACK and NACK in all versions, with or without a transaction."""
    transaction = required(head, "transaction") if "transaction" in head.values else None
    if session.version == V12:
        shown = required(head, "id")
        serial, _, number = shown.rpartition("-")
        chosen = session.by_serial.get(serial.encode())
        found = [chosen] if chosen is not None else []
    else:
        number = shown = required(head, "message-id")
        found = _candidates(session, head)
    if not number.isascii() or not number.isdigit() or len(number) > MESSAGE_ID_DIGITS_MAX:
        raise unknown_delivery(head.command, shown, None)
    kind = Acknowledge if head.command == "ACK" else Reject
    refusal: Refusal | None = None
    for subscription in found:
        if not subscription.acknowledges:
            continue
        answer = session.handle(
            kind(subscription.consumer, int(number), subscription.cumulative, transaction), now
        )
        if not isinstance(answer, Refusal):
            return answer
        # In 1.0 the next one may have it; the refusal that says most is the one to tell.
        if refusal is None or refusal.code is Code.NOT_FOUND:
            refusal = answer
    raise unknown_delivery(head.command, shown, refusal)


def _candidates(session: "Conversation", head: Head) -> list[Subscription]:
    """Subscriptions that an ACK of STOMP 1.0 or 1.1 can mean, the likeliest first."""
    name = head.values.get("subscription")
    if session.version != V10 or name is not None:
        found = session.by_key.get(subscription_key(required(head, "subscription"), ""))
        return [found] if found is not None else []
    others = [each for each in session.by_key.values() if each is not session.latest]
    return others if session.latest is None else [session.latest, *others]


def begin(session: "Conversation", head: Head, now: int) -> int:
    """BEGIN."""
    return session.do(Begin(session.connection, required(head, "transaction")), now)


def commit(session: "Conversation", head: Head, now: int) -> int:
    """COMMIT; the answer is durable when all of the transaction is."""
    return session.do(Commit(session.connection, required(head, "transaction")), now)


def abort(session: "Conversation", head: Head, now: int) -> int:
    """ABORT."""
    return session.do(Rollback(session.connection, required(head, "transaction")), now)


def disconnect(session: "Conversation", head: Head, now: int) -> int:
    """DISCONNECT: the clean end; the connection is closed when the receipt has left."""
    answer = session.do(CloseConnection(session.connection, CLOSED), now)
    session.connection = 0
    session.end(0)
    return answer


ACTIONS: Final[dict[str, Callable[["Conversation", Head, int], int]]] = {
    "SUBSCRIBE": subscribe,
    "UNSUBSCRIBE": unsubscribe,
    "ACK": settle,
    "NACK": settle,
    "BEGIN": begin,
    "COMMIT": commit,
    "ABORT": abort,
    "DISCONNECT": disconnect,
}


def not_now(action: str, command: str) -> StompError:
    if action == states.TOO_EARLY:
        return StompError(f"{command} before CONNECT", "begin with CONNECT or STOMP")
    if action == states.TWICE:
        return StompError(f"{command} on a connection that is connected", "send it only once")
    return StompError(f"{command} is not a frame for brokers", "clients do not send it")


def unknown_delivery(command: str, shown: str, refusal: Refusal | None) -> StompError:
    if refusal is not None and refusal.code is not Code.NOT_FOUND:
        return StompError(f"{command} of {shortened(shown)}: {refusal.text}")
    why = f" ({refusal.text})" if refusal is not None else ""
    return UnknownDelivery(
        f"{command} of {shortened(shown)}: no such delivery is in flight{why}",
        "give the header ack of a MESSAGE (before STOMP 1.2: its message-id and subscription) that"
        " was not settled yet, of a subscription that is open and acknowledges",
    )
