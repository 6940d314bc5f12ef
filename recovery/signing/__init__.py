"""Signatures over history: keys, statements, and what a statement covers (ADR 66).

It must never know a broker. Begin with `statements`.

Modules:

- `export_proof`: The proof of an export: the statements that cover it, and what stands for the
  parts that were left out (ADR 66).
- `file_errors`: Errors of files: which one it is, and whether the disk is full. Must never know
  what is in it.
- `leaves`: What a signature covers of the contents of blocks, so that an export can leave out parts
  of them and is proven all the same (ADR 66).
- `redaction`: Which parts of messages an export is without, and whose messages have them all the
  same (ADR 66).
- `signing_keys`: The keys of signatures, Ed25519 in PEM files. The only module that imports
  `cryptography`.
- `statements`: Signed statements about history, and changes of the key that signs them: their bytes
  and files (ADR 66).
"""
