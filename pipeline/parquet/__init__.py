"""History as Parquet files.

| module | job |
|---|---|
| `archive` | what lies where, and the manifests that say what is in it |
| `writing` | writing the events of a segment |
| `reading` | reading an archive as history |
"""
