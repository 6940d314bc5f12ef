"""Clients of a running broker, by STOMP, by AMQP 1.0, and by its control socket.

Must never know the broker's internals.

Modules:

- `amqp`: A client of AMQP 1.0 for the command line, the pipeline and the drills.
- `bodies`: Bodies of messages that are sent and received in pieces, whatever the protocol.
- `control`: A client of the control socket of the broker that runs on a data directory.
- `endpoint`: The endpoint of a client: the URL of a broker, its protocol and login, and TLS.
- `remote`: A client of the acceptor for administration of a broker elsewhere:
  `control://HOST:PORT`.
- `standing_by`: A sentence about a node that follows: who leads, and how far this node is behind
  (ADR 118).
- `stomp`: A small synchronous STOMP 1.2 client for the command line and the pipeline.
"""
