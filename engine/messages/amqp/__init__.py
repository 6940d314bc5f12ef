"""AMQP 1.0 as a format: its types, and the sections of its messages.

It lies here and not with the protocol because filters, catalogs, SQL and every other protocol read
messages that came in it. It must never know frames, links or sessions. Begin with `constructors`,
then `reader`.

Modules:

- `composites`: Composite types (part 1, section 1.4): structs, their fields as a table, and both as
  bytes.
- `constructors`: The primitive types of AMQP 1.0 (part 1, section 1.6) and their constructors: one
  table.
- `content_codec`: The sections of AMQP 1.0 as a format of content: how a message is stored, and its
  typed view.
- `described`: Values with a descriptor that their reader gave no meaning to (part 1, section 1.2).
- `kinds`: The types of fields: primitive ones, and those that restrict one of them (`Kind`).
- `malformed`: The error for bytes that cannot be read. Must never know the purpose of the bytes.
- `places`: Where the sections of a message are in its bytes.
- `reader`: Decoding: values from bytes, and where values end, without decoding them.
- `sections`: The sections of a message (part 3, section 3.2): one table, and the fields of the two
  lists.
- `writer`: Encoding: values as bytes, each in the shortest way.
"""
