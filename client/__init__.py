"""Clients of a running broker, by STOMP and by its control socket.

Must never know the broker's internals.

Modules:

- `control`: A client of the control socket of the broker that runs on a data directory.
- `endpoint`: The endpoint of a client: the URL of a broker, its login, and TLS.
- `remote`: A client of the acceptor for administration of a broker elsewhere:
  `control://HOST:PORT`.
- `stomp`: A small synchronous STOMP 1.2 client for the command line and the pipeline.
"""
