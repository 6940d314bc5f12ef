"""Writing: blocks become durable, in this process or in another one.

It must never know the content of a block. Begin with `writer`, then `commit_writer`.

Modules:

- `commit_choice`: Chooses where each block is written: in the broker's own process, or by the
  writer's (ADR 41).
- `commit_writer`: Commits each block where it is cheapest: in the broker's own process, or in the
  writer's.
- `lifeline`: Makes a child process end with its parent, and keeps signals away from threads.
- `near_writer`: Writes blocks in the broker's own process: a thread writes and syncs, its owner
  waits a moment.
- `process_writer`: Group commit in a process of its own: one block is written and synced while the
  next batch fills.
- `thread_writer`: Group commit in a thread of the broker, for brokers of one process (ADR 42).
- `writer`: The common core of journal writers, and a writer that writes synchronously.
"""
