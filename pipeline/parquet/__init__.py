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
- `segments`: The segments of a history, also those that only a Parquet archive has, as a Disk (ADR
  92).
- `writing`: Writing events as Parquet: one file for each day of a segment, in the order of their
  LSNs.
"""
