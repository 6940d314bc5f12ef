"""Opening data directories: repair, fold, invariants.

| module | what it holds |
|---|---|
| `directory` | `open_directory` for the server, `recover` for any disk |
| `readonly` | `read_state`: the state at an LSN, without touching anything |
| `fold` | folding blocks with the engine's `apply` |
| `layout` | the table of events in the journal's terms |
"""
