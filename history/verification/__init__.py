"""The checks behind `journal verify`: its checks, their pieces, and the report.

It must never change what it checks, and never know how a verdict is shown. Begin with
`verification`.

Modules:

- `catalog_verification`: Verifying the catalogs of a data directory: each is made again from its
  blocks, and compared.
- `folding_ranges`: Folding a journal in ranges, for `journal verify`: by several processes, and
  resumable.
- `index_verification`: Verifying the index of a data directory: by itself, against the journal, and
  against the fold.
- `journal_verification`: A verification of a data directory as `journal verify` and the console
  carry it out: everything that is asked for in one verdict, and its report.
- `newest_anchor`: Finding the newest anchor of a journal: the last signed statement, or the newest
  block.
- `signature_proof`: Proving that a journal is the one that was signed and anchored, for `journal
  verify`.
- `snapshot_verification`: Verifying the snapshots of a data directory and its archive against the
  fold of the journal.
- `trusted_keys`: The public keys that a verification trusts: the given ones, and those that are
  linked with them by changes of the key that both keys have signed (ADR 66).
- `verification`: Verifying a data directory: chain, crcs and footers, then the fold, digests and
  invariants.
- `verify_state`: The results of `journal verify` so far, in a separate file, so that it can be
  resumed.
- `verify_work`: The pieces of `journal verify` that can be done in any order and by several
  processes: the check of one segment, and the fold of one range.
"""
