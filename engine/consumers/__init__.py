"""Connections, their consumers, and their transactions: how they begin and how they end.

It must never know in which order consumers get messages. Begin with `subscriptions`.

Modules:

- `attach_plan`: Resolving an attach: which queue a consumer would get, and why it would get none.
- `bundle_subscriptions`: Deciding about subscriptions to several queues: all of their parts attach,
  or none (ADR 60).
- `composite`: Deciding a message for several destinations: it goes to all of them, or to none.
- `connections`: Deciding about connections and about the broker's own start and stop.
- `fallback`: Queues of direct addresses: they are emptied as soon as somebody receives.
- `owner_ends`: Deciding the fate of queues and addresses when their owner ends (ADR 102).
- `queue_removal`: Removing queues that may have consumers: their clients have no part in it, and
  hear why.
- `sequences`: Sequence numbers: consumers that get only messages from a number on (ADR 50).
- `slices`: Work that continues in slices without commands: closing connections, emptying queues,
  recalls.
- `subscriptions`: Deciding about consumers: attach, detach, durable and temporary subscriptions.
- `transactions`: Deciding transactions: buffered until commit, then one indivisible group of
  events.
"""
