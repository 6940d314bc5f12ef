"""The commands of `journal` that ask history: each runs one question of `daybook.history`, and
prints the answer.

Options are in `tools.journal_cli`. Begin with `trail`. Must never know how an answer is found.

Modules:

- `archive`: Running `journal archive`: listing an archive, verifying it, and fetching from it.
- `audit`: Running `journal audit`: the account of every queue between two moments, and every
  breach.
- `catalog`: Running `journal catalog`: makes the catalogs that a journal does not have, and counts
  them.
- `diff`: Running `journal diff`: what changed between two moments.
- `export`: Running `journal export`, and `journal verify` of an export.
- `fork`: Running `journal fork`: makes a data directory as a broker was, and says how.
- `growth`: Running `journal growth`: how many messages a queue had, step by step, or how many came
  to all queues and left them.
- `inspect`: Running `journal inspect`: prints the events of a journal as a story, as far as they
  are durable.
- `marks`: Running `journal marks`: the marks of the time line, some at a time.
- `past_states`: Moments that commands ask for: which event one is, and the state of the broker
  after it.
- `replay`: Running `journal replay`: chooses messages of history, counts them, and sends them (ADR
  68).
- `replay_channels`: How `journal replay` speaks to a broker: by STOMP or by AMQP 1.0.
- `reports`: Running `journal reports`: the reports of verifications, audits and drills that are
  kept.
- `salvage`: Running `journal salvage`: makes a data directory from the sound parts of another.
- `signing`: The commands `journal keygen` and `journal anchor`.
- `stat`: Running `journal stat`: sizes of the segments, events by kind, and messages by queue.
- `trail`: Running `journal trail`: finds the messages that are asked for, and prints their history.
- `verify`: Running `journal verify`: verifies a data directory, and reports its faults.
"""
