"""The command `journal sql`.

| module | job |
|---|---|
| `command` | its options |
| `running`, `output` | one question and its answer; imports Arrow and DuckDB |
| `shell` | questions asked one after the other on a terminal |
"""
