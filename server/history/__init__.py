"""The history of a running broker: its index, its retention and its signatures.

It must never know sessions. Begin with `data_directory_session`, then `indexing`.

Modules:

- `data_directory_session`: The data directory of a broker, from before its event loop to after it.
- `indexing`: Keeps an indexer running beside the broker, and reports its progress to the hub (ADR
  8).
- `notary`: The notary: a process of the broker that signs history and keeps anchors of it (ADR 66).
- `notary_messages`: What the broker and its notary say to each other: one JSON object on each line.
- `retention`: Retention: whole segments leave the live set; queued messages stay.
- `retention_rounds`: Executes the steps of a round of retention, while clients are served.
- `signing`: The notary of a broker, from the broker's side: what is to be signed, and what was (ADR
  66).
"""
