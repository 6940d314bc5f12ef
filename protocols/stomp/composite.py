"""Composite destinations in SEND: one message for each of several destinations, all or none.

Must never know how a message is divided into plans (`sending`), or carried out
(`engine.consumers.composite`).
"""

from typing import TYPE_CHECKING

import msgspec

from daybook.engine.commands import Send, SendToAll
from daybook.protocols.stomp.sending import SendPlan

if TYPE_CHECKING:
    from daybook.protocols.stomp.conversation import Conversation


def send_to_all(session: "Conversation", plan: SendPlan, send: Send, now: int) -> int:
    """Send the message of a plan to all its destinations; `send` is the command for the first.

    In a transaction of the client each of them is a part of it.
    """
    # What depends on the time of the frame, and is the same for all.
    timed = send.headers[len(plan.headers) :]
    sends = [send]
    for each in plan.also:
        other = msgspec.structs.replace(
            send, address=each.address, queue=each.queue, routing_type=each.routing_type,
            headers=each.headers + timed, retain=each.retain,
        )  # fmt: skip
        sends.append(other)
    if plan.transaction is None:
        kept = session.kept
        command = kept if isinstance(kept, SendToAll) else SendToAll(session.connection, sends)
        return session.do_send(command, now)
    answer = 0
    for each_send in sends:
        answer = session.do(each_send, now)
    return answer
