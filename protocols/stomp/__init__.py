"""STOMP 1.0, 1.1 and 1.2: sessions without input and output.

- `session`: Session, one a connection: bytes in, commands to the broker, bytes out
- `conversation`: its other half: commands, login, time, the end
- `bodies`: bodies that are not whole in memory
- `subscription`: Subscription, the receiver of deliveries: encodes MESSAGE
- `options`: StompOptions, what an acceptor configures
- `offer`: the line of the registry: scheme, options, sessions
- `actions`: what the other commands do
- `states`: the table of what each command does in each state
- `handshake`: CONNECT and STOMP: version, host, heart-beats
- `heart_beats`: when to be heard, when to give up
- `sending`, `subscribing`: what SEND and SUBSCRIBE mean
- `destinations`: names of destinations
- `frames`: heads, header lines, limits
- `versions`: what differs between the versions in header lines
- `errors`: StompError, what becomes an ERROR frame
"""

from daybook.protocols.stomp.options import StompOptions
from daybook.protocols.stomp.session import Session
from daybook.protocols.stomp.subscription import Subscription

__all__ = ["Session", "StompOptions", "Subscription"]
