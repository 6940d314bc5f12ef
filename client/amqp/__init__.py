"""A client of AMQP 1.0 for the command line, the pipeline and the drills.

It must never know the broker's insides. What bytes mean is in `protocols.amqp.wire`, once for the
broker and for this client. Begin with `client`, then `conversation`.

Modules:

- `arriving`: A message that arrives in frames: its headers as texts, and its body in pieces.
- `client`: A small synchronous AMQP 1.0 client for the command line, the pipeline and the drills.
- `conversation`: A connection of AMQP 1.0 on the side of a client, without a socket or a clock:
  bytes in, bytes out, and what the peer said.
- `failures`: The errors of the client of AMQP 1.0. Must never know a frame but the one that names
  an error.
- `leaving`: A message that leaves: the meaning of the command line's headers in AMQP 1.0.
- `links`: Links of a client: the credit to send, and the deliveries that arrive.
- `login`: A login by SASL: the mechanism that a client chooses, and its messages (part 5, section
  5.3).
- `scram`: SCRAM-SHA-256 (RFC 5802, RFC 7677) on the side of a client: it proves that it knows a
  passcode without sending it, and checks that the broker knows it too.
"""
