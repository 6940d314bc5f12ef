"""The command lines `daybook` and `journal`, and the demo. The only room that prints for people.

Modules:

- `administration`: The commands of `daybook` that ask a broker for something.
- `auditing`: Running `journal audit`: the account of every queue between two moments, and every
  breach.
- `daybook`: The command line `daybook`: running a broker, and sending requests to one.
- `demos`: The demos: real brokers and clients, kill -9 in the middle, and what was proven.
- `drills`: Drills: rehearsing crashes and losses on real journals and scratch brokers (ADR 69).
- `entry`: The installed commands: they handle Ctrl-C quietly from the first moment on.
- `exporting`: Running `journal export`: copies a range of history with its proof (ADR 66).
- `exporting_command`: Running `journal export`, and `journal verify` of an export.
- `history`: The commands of `journal` that ask history: each runs one question of
  `daybook.history`, and prints the answer.
- `jobs`: The jobs of the pipeline as commands: `daybook pipeline JOB`.
- `journal_cli`: The command line `journal`: shows what happened in a data directory, and verifies
  it.
- `pipeline`: `daybook pipeline`: the jobs of the pipeline as commands.
- `salvaging`: Running `journal salvage`: makes a data directory of what is sound in another, and
  reports.
- `sql`: The command `journal sql`.
- `terminal`: What all commands share: options, numbers, times, tables, errors and exit codes.
- `verification`: `journal verify`: what is checked, in which pieces, and what is reported.
"""
