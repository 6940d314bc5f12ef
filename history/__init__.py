"""The library of all that asks the journal: finding events, trails, totals, audits, verification,
exports.

The command line and the pipeline share it. It must never know how answers are shown, nor Spark.
Begin with `event_finder`.

Modules:

- `audit`: The audit by re-execution: every event is asked for at the engine's own rules (ADR 65).
- `brokers`: Questions to the journals of several brokers, between which messages went (ADR 111).
- `catalogs`: The catalogs of a journal: which spans of it have one, and the blocks that one names
  (ADR 64).
- `changes`: The changes between two moments: of addresses, queues, diverts and settings, in their
  order, and who asked for each of them, and for any other event.
- `contents`: Finding messages by what they contain: the value of a header, or the SHA-256 of a
  body.
- `descriptions`: Describing an event: as a line for people, as an object for programs.
- `differences`: What changed between two moments: two overviews of a broker, compared.
- `event_finder`: Finding events of a journal: one search for all sources that say where events may
  be (ADR 99).
- `exports`: Exports: a range of history in a directory of its own, with what proves that it is a
  part of it (ADR 66).
- `forwards`: What became of messages to direct addresses: which receivers got one, and how each of
  them ended it.
- `initial_state`: The state before some event of a journal, expressed as events.
- `missing_catalogs`: Makes the catalogs that a journal does not have yet, by several processes
  (`journal catalog`).
- `moments`: Moments of history: the last event that is not younger than a time.
- `names`: The names that ids stand for, collected from events while they are read.
- `places`: Where messages are, folded from their own events and from the topology with the engine's
  `apply`.
- `replays`: Messages to send again: which ones, as what, and how far a replay is.
- `reports`: Reports of verifications, audits and drills: kept in the data directory, few and small
  (ADR 113).
- `scan`: Reading events: single ones of a block, and the blocks of a segment that its footer names.
- `search`: Searches for events: clauses, at least one of which an event must fit, in a span of
  events.
- `selection`: Choosing which events to show: filters by place in the journal, time, name, message
  and kind.
- `topology`: What ids stand for, found where it is asked for: the events by which things began and
  changed.
- `totals`: Counting the events of a journal: by kind, for each queue, in the last minutes, and how
  one queue grew.
- `trail`: Collects all events of a message, of those it was made from, and of those made from it.
- `trail_drawing`: A trail as a picture: the lanes of its queues, and how long it was in which
  place.
- `verification`: The checks behind `journal verify`: its checks, their pieces, and the report.
- `workers`: Processes that carry out pieces of long work, such as checking one segment of many.
"""
