"""Jobs over history; each is a function of an engine, and a command of `daybook pipeline`.

Modules:

- `archive`: Archives history as Parquet: sealed segments become Parquet files with a proof.
- `audit`: The audit: accounts for every message of a span, queue by queue, and names every event
  that the broker's rules do not allow.
- `defaults`: What jobs assume when nothing else is said. Imports nothing: `--help` shows it.
- `latency`: Measures latencies, redelivery, poison messages and slow consumers.
- `latency_plots`: Draws the latency job's tables as PNG files.
- `latency_spread`: Percentiles of many values in little memory: counts by the first three digits of
  a value.
- `latency_tables`: The queries of the latency job, as SQL over the table `measured`, and its result
  tables.
- `replay`: Replay: sends messages of history again, in the order of their LSNs, each exactly once.
- `replay_state`: The request of a replay, and its progress. A killed replay resumes from it.
- `trail`: The trails of many messages at once: all events of them and their families.
"""
