"""History as Parquet files.

| module | job |
|---|---|
| `archive` | the files of an archive, and the manifests that describe them |
| `writing` | writing the events of a segment |
| `reading` | reading an archive as history |

Modules:

- `archive`: A Parquet archive: its files, and the manifests that describe them.
- `reading`: Reading a Parquet archive as history, for DuckDB and for Spark, with the journal around
  it.
- `writing`: Writing events as Parquet: one file for each day of a segment, in the order of their
  LSNs.
"""
