"""How entries come into a queue: on arrival, from history, in place of others, or at a time.

It must never know who sent a message, or to which address. Begin with `placement`, then
`arrivals`.

Modules:

- `anycast_choice`: Choosing the one anycast queue that gets a message, where an address has
  several.
- `arrivals`: Messages on their way into very many queues: decided by one event, entered in slices
  (ADR 89).
- `dispatch_start`: When a queue begins to deliver: with so many consumers, or some time after the
  first one.
- `last_values`: Deciding that a newer message replaces an older one with the same last value key
  (ADR 45).
- `placement`: Choosing the queues of a message among those of its address, and putting it there.
- `recalls`: Deciding what a new queue gets of the messages that were sent before it existed (ADR
  49).
- `retained_messages`: Deciding about retained messages: one of each address, for queues to come
  (ADR 59).
- `retroactive`: Deciding about the history that an address keeps for queues to come (ADR 49).
- `rings`: Deciding which messages leave a ring queue: one that holds a fixed number of ready
  messages.
- `schedules`: Deciding that an entry is not delivered before a time, and that this time has come
  (ADR 39).
"""
