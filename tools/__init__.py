"""The command lines `daybook` and `journal`, and the demo. The only room that prints for people.

Modules:

- `administration`: The commands of `daybook` that ask a broker for something.
- `console`: The command `console`: the broker in a browser (ADR 112).
- `daybook`: The command line `daybook`: running a broker, and sending requests to one.
- `demos`: The demos: real brokers and clients, kill -9 in the middle, and a proof of the result.
- `drills`: Drills: rehearsing crashes and losses on real journals and scratch brokers (ADR 69).
- `entry`: The installed commands: they handle Ctrl-C quietly from the first moment on.
- `history`: The commands of `journal` that ask history: each runs one question of
  `daybook.history`, and prints the answer.
- `jobs`: The jobs of the pipeline as commands: `daybook pipeline JOB`.
- `journal_cli`: The command line `journal`: shows the history of a data directory, and verifies it.
- `pipeline`: `daybook pipeline`: the jobs of the pipeline as commands.
- `sql`: The command `journal sql`.
- `terminal`: The code that all commands share: options, numbers, times, tables, errors and exit
  codes.
"""
