"""Queues: entries in their order of delivery, in memory and in the store, and their consumers.

It must never know commands, events or settings, or why an entry moves. Begin with `queue`, then
`level`.

Modules:

- `arrival`: A message on its way into many queues, as `engine.entries.arrivals` has it.
- `consumer`: Consumers, their connections, and the bundles of consumers of one subscription.
- `entry`: Entries, which are a queue's references to messages, and takers, which get them.
- `flights`: The entries in flight from a queue, by position: browsers read each in its place.
- `groups`: Message groups: which consumer has which group of a queue (ADR 48).
- `hashed_groups`: Message groups whose consumers follow from their names: consistent hashing (ADR
  62).
- `id_cache`: The ids of messages that an address remembers: the last ones, as many as its
  id-cache-size.
- `latest`: The newest message for each last value key of a queue, as far as the store does not know
  it.
- `level`: A level: the entries of a queue that are delivered in the order of their positions (ADR
  33).
- `level_scan`: Reading a level from a position on, without making the entries of the store
  resident.
- `paged_range`: A paged range: the part of a level of a queue whose entries only the store has.
- `queue`: Addresses, their bindings, and queues: entries in their order of delivery, in memory and
  in the store.
- `recall`: The recall of a new queue: how far it is with the messages that were sent before it
  existed.
- `window`: How much of a queue comes into memory at a time. Must never know queues.
"""
