"""The meaning of STOMP's bytes and headers, without any connection.

It must never know a session. Begin with `frames`.

Modules:

- `destinations`: Names of destinations: the meaning of a `destination` header.
- `durable_names`: Durable subscriptions that have a name beside the `id`:
  `durable-subscription-name`.
- `errors`: The errors of a session, which become ERROR frames. Must never know a socket.
- `foreign`: Headers of other brokers that Daybook does not support: refused, never ignored.
- `frames`: Frames as bytes: parsing of heads, limits on input, and frames of the broker.
- `handshake`: CONNECT and STOMP: the terms that client and broker agree on at the beginning. Must
  never check users or passcodes: it passes them on.
- `options`: The options of STOMP acceptors. Must never know where the values come from.
- `principals`: Headers that say who sent a message: the principals of a user, as Apollo has them.
- `spelling`: How an acceptor spells names: its separators and wildcards, and percent-encoding.
- `states`: The state machine of a connection: the action of each command in each state, and the
  transitions. The session reports a command that is not in the table as unknown. docs/stomp.md
  shows both tables. Must never know how an action is executed.
- `synonyms`: Headers that mean the same, in their order: which one counts when a frame has several.
- `versions`: The differences of header lines between STOMP 1.0, 1.1 and 1.2.
- `virtual_hosts`: Which virtual host a client gets by the header `host` of its CONNECT (ADR 58).
"""
