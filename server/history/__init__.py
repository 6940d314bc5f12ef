"""The history of a running broker: its index, its retention and its signatures.

It must never know sessions. Begin with `data_directory_session`, then `indexing`.

Modules:

- `alone`: A broker whose own disk decides what is durable.
- `data_directory_session`: The data directory of a broker, from before its event loop to after it.
- `indexing`: Keeps an indexer running beside the broker, and reports its progress to the hub (ADR
  8).
- `notary`: The notary: a process of the broker that signs history and keeps anchors of it (ADR 66).
- `notary_messages`: The messages between the broker and its notary: one JSON object on each line.
- `retention`: Retention: whole segments leave the live set; queued messages stay.
- `retention_rounds`: Executes the steps of a round of retention, while clients are served.
- `signing`: The broker's side of its notary: statements to sign, and signed ones (ADR 66).
"""
