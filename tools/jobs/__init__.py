"""The jobs of the pipeline as commands: `daybook pipeline JOB`.

Modules:

- `archive`: `daybook pipeline archive`: history as Parquet, its verification, and segments restored
  from it.
- `audit`: `daybook pipeline audit`: the account of every queue, and every fault with its events.
- `job`: The input of a job of the pipeline, and the engine that runs it, from its options.
- `latency`: `daybook pipeline latency`: latencies, sources of redelivery, and slow consumers.
- `options`: Options shared by the jobs of the pipeline: history, selection, engine, output.
- `output`: The output of a job: a table on the terminal, or CSV, JSON lines or Parquet to any
  place.
- `replay`: `daybook pipeline replay`: sends messages of history to a broker again, each exactly
  once.
- `trail`: `daybook pipeline trail`: the histories of many messages at once.
"""
