"""The execution of each command but SEND and CONNECT, in all versions.

Each function executes one frame on its session and returns the LSN that its receipt waits for. Must
never know bytes.
"""

from collections.abc import Callable
from typing import Final

from daybook.engine.commands import (
    Begin,
    CloseConnection,
    Commit,
    Credit,
    DeleteSubscription,
    Detach,
    Rollback,
    Settle,
)
from daybook.engine.facts.reasons import CLOSED
from daybook.engine.facts.settlements import ACCEPTED, FAILED, UNMETERED
from daybook.engine.refusals import Code, Refusal
from daybook.protocols.stomp.conversation import Conversation
from daybook.protocols.stomp.readers import Reader
from daybook.protocols.stomp.subscribing import SubscribeRequest, subscription_key
from daybook.protocols.stomp.subscription import Subscription
from daybook.protocols.stomp.wire import foreign, states
from daybook.protocols.stomp.wire.durable_names import durable_name
from daybook.protocols.stomp.wire.errors import (
    StompError,
    Unfinished,
    UnknownDelivery,
    refused,
    shortened,
)
from daybook.protocols.stomp.wire.frames import Head, required, truth
from daybook.protocols.stomp.wire.versions import V10, V12

ERROR: Final = "error"
"""Header of NACK: why the message failed, for its dead letter."""
MESSAGE_ID_DIGITS_MAX: Final = 20
"""Ids of messages are unsigned 64-bit numbers."""


def subscribe(session: Conversation, head: Head, now: int) -> int:
    """SUBSCRIBE: attach a consumer whose receiver is a Subscription."""
    needs_id = session.version != V10
    request = SubscribeRequest(
        head, needs_id, session.client_id, session.options, session.connection
    )
    if request.key in session.by_key:
        raise StompError(
            f"subscription {request.key[0]} {shortened(request.key[1])} exists on this"
            " connection already",
            "give every subscription an id of its own, or UNSUBSCRIBE first",
        )
    if session.parts + request.parts > session.options.max_subscriptions:
        raise StompError(
            f"more than {session.options.max_subscriptions} subscriptions on this connection",
            "use fewer, or raise max-subscriptions in the broker's configuration",
        )
    made = Subscription if request.reading.is_plain else Reader
    subscription = made(session, session.serials + 1, request)
    command = request.command(session.connection, subscription)
    subscription.consumer = answer = session.do(command, now)
    session.serials += 1
    session.parts += subscription.parts
    session.by_key[request.key] = subscription
    session.keys_bytes += subscription.keys_bytes
    if session.version == V10:
        session.by_consumer[answer] = subscription
    if session.version == V12 and request.credit_policy != UNMETERED:
        session.by_serial[b"%d" % subscription.serial] = subscription
    return answer


def unsubscribe(session: Conversation, head: Head, now: int) -> int:
    """UNSUBSCRIBE: detach; with persistent:true or a name delete the durable subscription."""
    name = durable_name(head, session.client_id)
    delete = name is not None or truth(head, "persistent", False)
    if not delete:
        foreign.refuse(head, foreign.ON_UNSUBSCRIBE)
    key = _key_to_end(session, head, name, delete=delete)
    if name is None and delete:
        name = key[1]
    subscription = session.by_key.get(key)
    if subscription is None:
        if name is None:
            raise StompError(
                f"no subscription with {key[0]} {shortened(key[1])} on this connection",
                "give the header of a SUBSCRIBE that was sent on this connection",
            )
        return session.do(DeleteSubscription(name, session.connection), now)
    subscription.is_open = False
    deletes_own = name is not None and subscription.durable_name == name
    answer = _detach(session, subscription, name if deletes_own else None, now)
    # The subscription stays until here: with many deliveries in flight, detaching takes several
    # turns.
    del session.by_key[key]
    session.keys_bytes -= subscription.keys_bytes
    session.parts -= subscription.parts
    session.by_serial.pop(b"%d" % subscription.serial, None)
    session.by_consumer.pop(subscription.consumer, None)
    if session.latest == subscription.consumer:
        session.latest = 0
    if name is not None and not deletes_own:
        answer = session.do(DeleteSubscription(name, session.connection), now)
    return answer


def _detach(
    session: Conversation, subscription: Subscription, durable_name: str | None, now: int
) -> int:
    """Detach a subscription, and delete the durable one of this name; a browser may have ended.

    Then the answer waits for all that is decided, and so for that end.
    """
    command = Detach(subscription.consumer, durable_name is not None)
    if not subscription.is_over:
        return session.do(command, now)
    answer = session.handle(command, now)
    if not isinstance(answer, Refusal):
        return answer
    if answer.code is Code.UNFINISHED:
        raise Unfinished
    if answer.code is not Code.NOT_FOUND:
        raise refused(answer)
    if durable_name is not None:
        return session.do(DeleteSubscription(durable_name), now)
    return session.broker.lsn


def _key_to_end(
    session: Conversation, head: Head, name: str | None, *, delete: bool
) -> tuple[str, str]:
    """Return the key of the subscription that an UNSUBSCRIBE means.

    A name is enough, as at Artemis: then it is the subscription of that name.
    """
    values = head.values
    if name is not None and "id" not in values:
        own = (each.key for each in session.by_key.values() if each.durable_name == name)
        return next(own, ("name", name))
    if session.version != V10 or delete or "id" in values:
        return subscription_key(required(head, "id"), "")
    return subscription_key(None, required(head, "destination"))


def settle(session: Conversation, head: Head, now: int) -> int:
    """ACK and NACK in all versions, with or without a transaction."""
    if head.command == "NACK":
        foreign.refuse(head, foreign.ON_NACK)
    transaction = required(head, "transaction") if "transaction" in head.values else None
    if session.version == V12:
        shown = required(head, "id")
        serial, _, number = shown.rpartition("-")
        chosen = session.by_serial.get(serial.encode())
        found = [chosen] if chosen is not None else []
    else:
        number = shown = required(head, "message-id")
        found = _candidates(session, head, number)
    if not number.isascii() or not number.isdigit() or len(number) > MESSAGE_ID_DIGITS_MAX:
        raise unknown_delivery(head.command, shown, None)
    outcome = ACCEPTED if head.command == "ACK" else FAILED
    error = head.values.get(ERROR, "") if outcome == FAILED else ""
    refusal: Refusal | None = None
    for subscription in found:
        if not subscription.acknowledges:
            if _gives_credit_back(session, subscription, head.command, int(number), now):
                return 0
            continue
        answer = session.handle(
            Settle(
                subscription.consumer,
                int(number),
                subscription.cumulative,
                transaction,
                outcome,
                error,
            ),
            now,
        )
        if not isinstance(answer, Refusal):
            return answer
        if answer.code is Code.UNFINISHED:
            raise Unfinished
        if answer.code is Code.NOT_FOUND and subscription.is_over:
            # Its queue was deleted, and nothing of it is left to settle.
            return session.broker.lsn
        # In 1.0 the next subscription may have the delivery; report the most specific refusal.
        if refusal is None or refusal.code is Code.NOT_FOUND:
            refusal = answer
    raise unknown_delivery(head.command, shown, refusal)


def _gives_credit_back(
    session: Conversation, subscription: Subscription, command: str, message: int, now: int
) -> bool:
    """Handle an ACK of a delivery that was acknowledged when sent: it only returns its credit."""
    size = subscription.give_back(message) if command == "ACK" else None
    if size is None:
        return False
    if size >= 0 and not subscription.is_over:
        session.do(Credit(subscription.consumer, 1, size), now)
    return True


def _candidates(session: Conversation, head: Head, number: str) -> list[Subscription]:
    """Return the subscriptions that an ACK of STOMP 1.0 or 1.1 can mean, the most likely first."""
    name = head.values.get("subscription")
    if session.version != V10 or name is not None:
        found = session.by_key.get(subscription_key(required(head, "subscription"), ""))
        return [found] if found is not None else []
    if not number.isdecimal() or len(number) > MESSAGE_ID_DIGITS_MAX:
        return []
    holders = session.broker.holders(session.connection, int(number))
    known = [session.by_consumer[each] for each in holders if each in session.by_consumer]
    if not known:
        # The delivery may have been acknowledged when sent, and wait only for its credit.
        known = [each for each in session.by_consumer.values() if each.owed or each.forgotten]
        session.broker.budget.spent += len(session.by_consumer) >> 5
    # If several have the message, the one with the last MESSAGE comes first.
    return sorted(known, key=lambda each: each.consumer != session.latest)


def begin(session: Conversation, head: Head, now: int) -> int:
    """BEGIN."""
    return session.do(Begin(session.connection, required(head, "transaction")), now)


def commit(session: Conversation, head: Head, now: int) -> int:
    """COMMIT; the receipt waits until the whole transaction is durable."""
    return session.do(Commit(session.connection, required(head, "transaction")), now)


def abort(session: Conversation, head: Head, now: int) -> int:
    """ABORT."""
    return session.do(Rollback(session.connection, required(head, "transaction")), now)


def disconnect(session: Conversation, head: Head, now: int) -> int:
    """DISCONNECT: a clean end, for which its receipt waits; the connection is closed after that is
    sent."""
    answer = session.do(CloseConnection(session.connection, CLOSED, asks_again=True), now)
    session.connection = 0
    session.end(0)
    return answer


ACTIONS: Final[dict[str, Callable[[Conversation, Head, int], int]]] = {
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
