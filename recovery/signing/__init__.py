"""Signatures over history: keys, statements, and what a statement covers (ADR 66).

It must never know a broker. Begin with `statements`.

Modules:

- `export_proof`: The proof of an export: the statements that cover it, and substitutes for the
  redacted parts (ADR 66).
- `file_errors`: Errors of files: which one it is, and whether the disk is full.
- `leaves`: The signed contents of blocks, so that an export can leave out parts of them and is
  still proven (ADR 66).
- `redaction`: The parts of messages that an export omits, and the addresses whose messages keep
  them (ADR 66).
- `signing_keys`: The keys of signatures, Ed25519 in PEM files. The only module that imports
  `cryptography`.
- `statements`: Signed statements about history, and changes of the key that signs them: their bytes
  and files (ADR 66).
"""
