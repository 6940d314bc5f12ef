"""The logical state, and `apply`, the only code that changes it.

It must never know commands: whatever happens here is already decided. Begin with `state`, then
`apply`; `digest` and `invariants` say what a state is and what is true of each.

Modules:

- `address_counts`: How many messages of an address queues took, and how many none did.
- `apply`: `apply`: the only code that changes the logical state, alike live and in every fold.
- `apply_recalls`: What events change when a new queue gets messages of before
  (`engine.entries.recalls`).
- `apply_topology`: What events change of connections, consumers, addresses, queues, settings and
  diverts.
- `digest`: The digest of the logical state: equal digests mean equal states.
- `diverts`: Diverts: which of them take messages of an address, and what their copies look like
  (ADR 47).
- `feature_levels`: The feature level that events and states need, by the table in `daybook.levels`
  (ADR 79).
- `group_rules`: By which rule a queue knows its message groups, and what changes with its
  consumers.
- `invariants`: Invariants of every state that the journal can lead to; checked after a fold, before
  serving.
- `no_local`: Subscriptions that get no messages of their own connection: `no-local`.
- `sizes`: The sizes of addresses that do not page, and the memory of all queues.
- `state`: The logical state of the broker: the queues and messages that the journal describes.
- `timers`: Timers: when to look at which entries, and why (ADR 39).
- `times`: About when the messages of histories were sent: marks of the time, with the LSN of each.
- `wildcard_subscriptions`: Subscriptions with wildcards over queues: which queues they find, now
  and later (ADR 60).
- `wildcards`: Wildcard addresses: which of them a name matches (ADR 40).
"""
