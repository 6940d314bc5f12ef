"""How a delivery is made, and how it ends.

It must never know how the consumer of an entry was chosen. Begin with `delivery`, then
`settlement`.

Modules:

- `delivery`: Handing an entry to a consumer: makes one delivery.
- `drains`: Draining consumers: each gets what there is, and what is left of its credit is taken
  back.
- `held_messages`: Deciding about held messages: trying to move them again, or delivering them again
  (ADR 25).
- `non_destructive`: Showing the messages of a non-destructive queue to its consumers (ADR 44).
- `refusing`: Consumers that return messages as not for themselves: they take no more of them.
- `settlement`: Deciding how a delivery ends: acknowledged, returned, or dead-lettered.
"""
