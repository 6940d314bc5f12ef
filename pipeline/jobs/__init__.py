"""Jobs over history; each is a function of an engine, and a command of `daybook pipeline`.

Modules:

- `archive`: Archiving history as Parquet: sealed segments become files, and keep their proof.
- `audit`: The audit: every message of a span is accounted for, queue by queue, and what cannot be
  is told.
- `audit_judge`: Judging what happened to one entry: a message in one queue, from Routed to its end.
- `audit_lives`: Who was there when: the lives of queues, consumers and connections in an audited
  span.
- `audit_tables`: What the audit asks of an engine, as SQL over the table `audited`.
- `audit_transactions`: Whether the transactions of a span are whole: their events lead up to their
  commits.
- `defaults`: What jobs assume when nothing else is said. Imports nothing: `--help` shows it.
- `latency`: How long messages take, where they come back, which are poison, and which consumers are
  slow.
- `latency_plots`: Pictures of the latency job's tables, as PNG files.
- `latency_spread`: Percentiles of many values in little memory: counts by the first three digits of
  a value.
- `latency_tables`: The queries of the latency job, as SQL over the table `measured`, and its result
  tables.
- `replay`: Replay: sends messages of history again, in the order of their LSNs, each exactly once.
- `replay_state`: The state file of a replay: its request and its progress. A killed replay resumes
  from it.
- `trail`: The trails of many messages at once: all events of them and their families.
"""
