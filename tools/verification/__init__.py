"""`journal verify`: what is checked, in which pieces, and what is reported.

It must never change what it checks. Begin with `verify_command`.

Modules:

- `catalog_verification`: Verifying the catalogs of a data directory: each is made again from its
  blocks, and compared.
- `export_descriptions`: Checking the files of an export that describe it: the id of the data
  directory, and the manifest of each segment. Nobody signs them, so they have to say what the
  segments say. Changes nothing.
- `export_keys`: The changes of the signing key that an export takes along, so that one key of its
  journal proves it, whichever was in use in its range (ADR 66).
- `export_verification`: Verifying an export: that it is what it was, and what proves that it is a
  part of a history (ADR 66).
- `folding_ranges`: Folding a journal in ranges, for `journal verify`: by several processes, and
  resumable.
- `index_verification`: Verifying the index of a data directory: by itself, against the journal, and
  against the fold.
- `newest_anchor`: Finding the newest anchor of a journal: what was signed last, or the newest
  block.
- `signature_proof`: Proving that a journal is the one that was signed and anchored, for `journal
  verify`.
- `signing_commands`: The commands `journal keygen` and `journal anchor`.
- `snapshot_verification`: Verifying the snapshots of a data directory and its archive against the
  fold of the journal.
- `trusted_keys`: The public keys that a verification trusts: the given ones, and those that are
  linked with them by changes of the key that both keys have signed (ADR 66).
- `verification`: Verifying a data directory: chain, crcs and footers, then the fold, digests and
  invariants.
- `verify_command`: Running `journal verify`: verifies a data directory, and reports what is wrong
  with it.
- `verify_state`: What `journal verify` has verified so far, in a file of its own, so that it can be
  resumed.
- `verify_work`: The pieces of `journal verify` that can be done in any order and by several
  processes: the check of one segment, and the fold of one range.
"""
