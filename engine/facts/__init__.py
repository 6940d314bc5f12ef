"""Facts: the one table of events, and the tables that give their columns a meaning.

It must never know the state that events change, or who decides them. Begin with `events`, then
`life` and `kinds`.

Modules:

- `definitions`: The definitions of addresses and queues: each attribute is listed once (DESIGN,
  section 12).
- `details`: The details of events: one struct for each kind that needs more than columns.
- `events`: The one table of events: columns and kinds, with the details of each
  (`engine.facts.details`).
- `formats`: Formats of content: how the flags of a message name one, and what every codec must
  offer.
- `kinds`: Sets of kinds of events, each derived from the table in `engine.facts.events`.
- `life`: The changes that an event can make to an entry, and to the things that ids stand for.
- `mismatch`: The error of an event that does not fit the state: a bug of the broker, or damage.
- `own_headers`: The headers of messages that the broker alone sets: the one table of them.
- `packed_values`: Values of all types as bytes, for the journal and the index: one form for each
  value.
- `pending`: The open batch: events that were decided and applied, and are not yet given to the
  journal.
- `reasons`: Why the broker decided something: numbers and names of the reasons in events.
- `rows`: Packing and unpacking rows of events in memory, with ids of any size (ADR 36).
- `settlements`: How deliveries end, and what each end means for the message: the one table for
  both.
- `values`: The types of values that properties and bodies of messages have, in all formats
  together.
"""
