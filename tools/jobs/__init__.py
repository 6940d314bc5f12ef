"""The jobs of the pipeline as commands: `daybook pipeline JOB`.

Modules:

- `archive`: `daybook pipeline archive`: history as Parquet, its proof, and segments made of it
  again.
- `audit`: `daybook pipeline audit`: the account of every queue, and every fault with its events.
- `latency`: `daybook pipeline latency`: how long messages take, where they come back, and who is
  slow.
- `options`: What the jobs of the pipeline have in common on the command line: history, selection,
  engine.
- `output`: Where the rows of a job go: a table on the terminal, or CSV, JSON lines or Parquet
  anywhere.
- `replay`: `daybook pipeline replay`: messages of history are sent to a broker again, each exactly
  once.
- `trail`: `daybook pipeline trail`: biographies of many messages at once.
"""
