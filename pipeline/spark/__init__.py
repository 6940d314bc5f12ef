"""Everything that knows Spark.

| module | job |
|---|---|
| `session` | sessions that know Daybook's sources |
| `datasource`, `streaming`, `options` | `format("journal")`: history at rest, and as it grows |
| `sink` | `format("daybook")`: rows become messages |
| `engine` | the engine on which jobs run |
| `failures`, `interrupts` | errors as sentences; Ctrl-C |
"""
