"""STOMP 1.0, 1.1 and 1.2: sessions without input and output.

Modules:

- `actions`: What each command but SEND and CONNECT does, in all versions.
- `bodies`: Bodies that arrive in several reads.
- `composite`: Composite destinations in SEND: one message for each of several destinations, all or
  none.
- `composite_subscribing`: Composite destinations in SUBSCRIBE: one subscription to several queues
  and topics, and to the queues that match a name with wildcards.
- `conversation`: The conversation of a connection: login, commands, time and the end, but not
  parsing of input.
- `destinations`: Names of destinations: what a `destination` header means to the broker.
- `durable_names`: Durable subscriptions that have a name beside the `id`:
  `durable-subscription-name`.
- `errors`: The errors of a session, which become ERROR frames. Must never know a socket.
- `foreign`: Headers of other brokers that Daybook does not support: refused, never ignored.
- `frames`: Frames as bytes: parsing of heads, limits on input, and frames of the broker.
- `handshake`: CONNECT and STOMP: what client and broker agree on at the beginning.
- `heart_beats`: When to send a heart-beat and when a peer is silent. Must never know a clock: time
  is passed in.
- `offer`: STOMP's offer to the registry. Must never know where the values of options come from.
- `options`: The options of STOMP acceptors. Must never know where the values come from.
- `principals`: Headers that say who sent a message: the principals of a user, as Apollo has them.
- `readers`: Subscriptions that read: browsers, and those that want sequence numbers
  (`include-seq`).
- `reading`: How a subscription reads: as a browser, from a sequence number on, with numbers in its
  messages.
- `sending`: What SEND means: a plan prepared from its head, which serves every frame with the same
  head.
- `session`: A STOMP session: bytes of one connection in, commands to the broker, bytes out.
- `spelling`: How an acceptor spells names: its separators and wildcards, and percent-encoding.
- `states`: The state machine of a connection as one table: what each command does in each state.
- `subscribing`: The meaning of SUBSCRIBE. Must never know the session that receives it.
- `subscription`: A subscription: what the broker hands deliveries to, and what turns them into
  MESSAGE frames.
- `synonyms`: Headers that mean the same, in their order: which one counts when a frame has several.
- `versions`: What differs between STOMP 1.0, 1.1 and 1.2 in header lines.
- `virtual_hosts`: Which virtual host a client gets by the header `host` of its CONNECT (ADR 58).
"""

from daybook.protocols.stomp.options import StompOptions
from daybook.protocols.stomp.session import Session
from daybook.protocols.stomp.subscription import Subscription

__all__ = ["Session", "StompOptions", "Subscription"]
