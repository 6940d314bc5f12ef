"""The jobs of the pipeline as commands: `daybook pipeline JOB`.

| module | job |
|---|---|
| `options`, `output` | what all have in common: history, selection, engine; where rows go |
| `archive`, `audit`, `latency`, `replay`, `trail` | one command each |
"""
