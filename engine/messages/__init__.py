"""Messages: their content in any format, and what is known of where they have been.

It must never know which queues have a message. Begin with `message`, then `content`.

Modules:

- `amqp`: AMQP 1.0 as a format: its types, and the sections of its messages.
- `annotations`: What consumers note on a message when they return it, for its next delivery (ADR
  100).
- `content`: Reading the content of messages: the registry of formats, and a typed view of headers.
- `conversions`: How values are expressed where a type is unknown: the one table of conversions
  between formats.
- `deaths`: How a message died: why, where, when, after how many attempts, at whose hands, and how
  often.
- `headers`: Header lines, the first format of content: the canonical block, and its codec.
- `message`: The contents of queues: a message, which never changes, and an entry, a queue's
  reference to it.
- `origins`: Where a message was before it was this one: dead letters, expired and moved messages,
  and copies that diverts make (ADR 71).
"""
