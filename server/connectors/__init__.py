"""Connections that the broker opens to other brokers and routers, and keeps open (ADR 110).

A connection is a peer of the hub like those that are accepted. It must never know what a session
says. Begin with `connectors`, then `connector`.

Modules:

- `connector`: One connector: opens its connection, and opens it again when it is gone.
- `connectors`: All connectors of a broker: a reload adds, changes and removes them; lists and
  figures show them.
- `delays`: The delays between the attempts of a connector. Must never know a clock.
- `line`: The side of a connector that its connection sees: where the bytes go, TLS, and the end.
- `logins`: The login of the broker at a peer, by SASL: which mechanism it chooses, and its
  messages.
- `preparing`: The work before a connection that may hang: the addresses of a host, and files.
"""
