"""Where a message goes: the queues of an address, diverts, dead letter and expiry addresses.

It must never know consumers. Begin with `routing`; `departures` is the way out of a queue.

Modules:

- `chunks`: Deciding about the pieces of large messages, which are journaled before their message.
- `dead_letter_addresses`: The addresses and queues for messages that were not delivered, expired,
  or found no queue.
- `departures`: Deciding how a message leaves its queue for a dead letter address or an expiry
  address.
- `divert_decisions`: Deciding about diverts: creating and deleting them, and which of them take a
  message (ADR 47).
- `drops`: Recording that a message that was sent is dropped, and why; and what its flags say.
- `duplicates`: Deciding that a message came before: duplicates are detected by the ids that senders
  set.
- `expiry`: Deciding that a message's time has passed, at delivery and by a scan over due entries.
- `filter_questions`: Asking the filters of an address about a message in slices, before anything is
  decided (ADR 73).
- `routing`: Deciding where a message goes: the queues of an address that get it.
- `send_outcome`: What became of a message that was just sent, according to the events decided about
  it.
- `send_plan`: Resolving a send: which queue or address it needs, and which diverts take it.
- `unrouted`: Deciding about messages that no queue takes: some go to the dead letter address
  instead.
"""
