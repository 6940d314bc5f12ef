"""Sockets: acceptors, their layers (TLS, WebSocket), and the peers behind them.

It must never know what a session says. Begin with `listeners`, then `peer_socket`.

Modules:

- `acting_users`: The users for whom programs of the operator act (`server.administration.acting`).
- `administrators`: Administrators: connections of Administering protocols, whose requests are those
  of the control socket.
- `admission`: Limits on connections: in total, for each address, and for connections without a
  login.
- `broker_premises`: The parts of a running broker beside its state, for the lists of
  administrators: virtual hosts, users, and its acceptors with their certificates, as well as that
  of its console.
- `connection_checks`: The checks between a new socket and the connection of a user.
- `entrances`: Connects an acceptor to the hub, to onlookers, or to administrators.
- `first_bytes`: Finds the protocol of a peer by its first bytes, where an acceptor speaks several.
- `hangups`: Detects closed connections of peers from which nothing is read.
- `keep_alive`: Probes of the kernel for peers that have disappeared. Must never know why nothing is
  heard.
- `layers`: The layers between a socket and a session: TLS and WebSocket. A plain connection has
  neither.
- `listeners`: Listening sockets: accepts connections within the limits, or refuses them with a
  reason.
- `onlookers`: Onlookers: connections of Watching protocols, which read figures and decide nothing
  (ADR 30).
- `peer_socket`: One socket of a peer: its transport, and the layers between the socket and the
  session.
- `peers`: The common part of all connections beside the hub's: those of administrators and of
  onlookers.
"""
