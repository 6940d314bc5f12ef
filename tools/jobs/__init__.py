"""The jobs of the pipeline as commands: `daybook pipeline JOB`.

Modules:

- `archive`: `daybook pipeline archive`: history as Parquet, its proof, and segments made of it
  again.
- `audit`: `daybook pipeline audit`: the account of every queue, and every fault with its events.
- `job`: What a job of the pipeline works on, and what runs it, as its options say.
- `latency`: `daybook pipeline latency`: how long messages take, where they come back, and who is
  slow.
- `options`: Options that jobs of the pipeline share: history, selection, engine, output.
- `output`: Where the rows of a job go: a table on the terminal, or CSV, JSON lines or Parquet
  anywhere.
- `replay`: `daybook pipeline replay`: messages of history are sent to a broker again, each exactly
  once.
- `trail`: `daybook pipeline trail`: biographies of many messages at once.
"""
