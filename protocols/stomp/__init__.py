"""STOMP 1.0, 1.1 and 1.2: sessions without input and output.

Modules:

- `actions`: The execution of each command but SEND and CONNECT, in all versions.
- `bodies`: Bodies that arrive in several reads.
- `composite`: Composite destinations in SEND: one message for each of several destinations, all or
  none.
- `composite_subscribing`: Composite destinations in SUBSCRIBE: one subscription to several queues
  and topics, and to the queues that match a name with wildcards.
- `conversation`: The conversation of a connection: login, time and the end, but no frame of the
  peer.
- `heart_beats`: When to send a heart-beat and when a peer is silent. Must never know a clock: time
  is passed in.
- `offer`: STOMP's offer to the registry. Must never know where the values of options come from.
- `output`: The output of a connection: what its session and its subscriptions write.
- `readers`: Subscriptions that read: browsers, and those that want sequence numbers
  (`include-seq`).
- `reading`: How a subscription reads: as a browser, from a sequence number on, with numbers in its
  messages.
- `sending`: The meaning of SEND: a plan prepared from its head, which serves every frame with the
  same head.
- `session`: A STOMP session: bytes of one connection in, commands to the broker, bytes out.
- `subscribing`: The meaning of SUBSCRIBE. Must never know the session that receives it.
- `subscription`: A subscription: receives deliveries from the broker, and turns them into MESSAGE
  frames.
- `wire`: The meaning of STOMP's bytes and headers, without any connection.
"""

from daybook.protocols.stomp.session import Session
from daybook.protocols.stomp.subscription import Subscription
from daybook.protocols.stomp.wire.options import StompOptions

__all__ = ["Session", "StompOptions", "Subscription"]
