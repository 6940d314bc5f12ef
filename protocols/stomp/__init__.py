"""STOMP 1.0, 1.1 and 1.2: sessions without input and output.

Modules:

- `actions`: What each command but SEND and CONNECT does, in all versions.
- `bodies`: Bodies that are not whole in memory: those that come in pieces.
- `conversation`: The conversation of a connection: login, commands, time and the end. Not how input
  is cut.
- `destinations`: Names of destinations: what a `destination` header means to the broker.
- `errors`: What goes wrong in a session, and becomes an ERROR frame. Must never know a socket.
- `foreign`: Headers that mean something to other brokers and nothing here: refused, never ignored.
- `frames`: Frames as bytes: heads taken apart, limits of what a peer may send, frames that the
  broker makes.
- `handshake`: CONNECT and STOMP: what the two sides agree on before anything else.
- `heart_beats`: When to be heard and when to give up a silent peer. Must never know a clock: time
  is passed in.
- `offer`: STOMP as the registry has it. Must never know where the values of options come from.
- `options`: What an acceptor configures about STOMP. Must never know where the values come from.
- `sending`: What SEND means: a plan prepared from its head, which serves every frame with the same
  head.
- `session`: A STOMP session: bytes of one connection in, commands to the broker, bytes out.
- `states`: The life of a connection as one table: what each command does in each state.
- `subscribing`: What SUBSCRIBE means. Must never know the session that it is sent on.
- `subscription`: A subscription: what the broker hands deliveries to, and what turns them into
  MESSAGE frames.
- `versions`: What differs between STOMP 1.0, 1.1 and 1.2 in header lines.
"""

from daybook.protocols.stomp.options import StompOptions
from daybook.protocols.stomp.session import Session
from daybook.protocols.stomp.subscription import Subscription

__all__ = ["Session", "StompOptions", "Subscription"]
