"""History as Parquet files.

| module | job |
|---|---|
| `archive` | what lies where, and the manifests that say what is in it |
| `writing` | writing the events of a segment |
| `reading` | reading an archive as history |

Modules:

- `archive`: A Parquet archive: what lies where in it, and the manifests that say what is in it.
- `reading`: Reading a Parquet archive as history, for DuckDB and for Spark, with the journal around
  it.
- `writing`: Writing events as Parquet: one file for each day of a segment, in the order of their
  LSNs.
"""
