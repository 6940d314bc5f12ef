"""Opening data directories: repair, fold, invariants.

Modules:

- `checkpoint`: The state to start from: the checkpoint in the index, brought up to the end of the
  journal.
- `directory`: Opening a data directory: lock, journal, repair of a torn tail, checkpoint, fold,
  invariants.
- `export_proof`: The proof of an export: the statements that cover it, and what stands for the
  parts that were left out (ADR 66).
- `file_errors`: Errors of files: which one it is, and whether the disk is full. Must never know
  what is in it.
- `fitting`: Making events behind a gap fit what is left of the history before it (ADR 67).
- `fold`: Folding blocks of the journal into the state, with the engine's own `apply`.
- `fork`: Forks: a data directory of its own that continues another one's history (ADR 67).
- `last_words`: The file `last-words`: why a broker distrusted its index. The next broker then reads
  all of it.
- `leaves`: What a signature covers of the contents of blocks, so that an export can leave out parts
  of them and is proven all the same (ADR 66).
- `moments`: The state of a data directory at any event of its history: for readers, without a lock
  (ADR 63).
- `readonly`: The state of a data directory for other processes than its broker: read-only, without
  a lock.
- `redaction`: Which parts of messages an export is without, and whose messages have them all the
  same (ADR 66).
- `restoring`: Making a data directory from an archive alone, that a broker can start on.
- `salvage`: Salvage: a new data directory with all that is provably good of a damaged one (ADR 67).
- `salvage_archive`: Segments of an archive that stand in for damaged or missing ones in a salvage
  (ADR 67).
- `salvage_gaps`: The gaps of a salvage: in the order of events, and what is missing before the
  first segment.
- `salvage_names`: Names of what a salvage reports: queues that gaps may concern, and messages that
  are not taken.
- `salvage_report`: What a salvage found: the report, and the gaps in it as people read of them (ADR
  67).
- `signing_keys`: The keys of signatures, Ed25519 in PEM files. The only module that imports
  `cryptography`.
- `starting`: The first command of a broker, which depends on how the broker before it ended.
- `statements`: Signed statements about history, and changes of the key that signs them: their bytes
  and files (ADR 66).
- `strangers`: Foreign files: a folder that has any cannot become a data directory.
"""
