"""Addresses, queues and durable subscriptions: how they begin, how long they stay, how they end.

It must never know how messages are routed. Begin with `topology`.

Modules:

- `bundle_members`: Deciding when bundles begin and end, and whose turn it is when their credit
  returns (ADR 60).
- `durable_subscriptions`: Deciding about durable subscriptions: their queues, and what their names
  mean to a client.
- `history_removal`: Ending histories that no address keeps any more, in slices
  (`engine.entries.retroactive`).
- `ownership`: Deciding what belongs to links, sessions and connections (ADR 102).
- `purges`: Queues that keep messages only while they have consumers: when the last one leaves, the
  rest is removed.
- `reserved_names`: Names that no new address or queue may have here, although protocols could spell
  them.
- `shown`: What consumers were shown and have not settled: volatile, and counted in memory (ADR 44).
- `sweep`: Deleting queues and addresses that nobody uses any more, by a scan in slices (ADR 46).
- `temporary_names`: Names of temporary destinations, and who may use them (ADR 57).
- `topology`: Deciding about addresses and queues: creation on demand or by command, rebinding,
  deletion.
"""
