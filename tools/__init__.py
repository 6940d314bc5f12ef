"""The command lines `daybook` and `journal`, and the demo. The only room that prints for people.

Modules:

- `administration`: The commands of `daybook` that ask a broker for something.
- `archive`: The commands `journal archive`: listing an archive, verifying it, and fetching from it.
- `archiving`: Running `journal archive`: listing an archive, verifying it, and fetching from it.
- `auditing`: Running `journal audit`: the account of every queue between two moments, and every
  breach.
- `cataloging`: The command `journal catalog`: makes the catalogs that a journal does not have yet.
- `counting`: Running `journal stat`: sizes of the segments, events by kind, and messages by queue.
- `daybook`: The command line `daybook`: running a broker, and sending requests to one.
- `demos`: The demos: real brokers and clients, kill -9 in the middle, and what was proven.
- `difference`: Running `journal diff`: what changed between two moments.
- `drills`: Drills: rehearsing crashes and losses on real journals and scratch brokers (ADR 69).
- `entry`: The installed commands: they handle Ctrl-C quietly from the first moment on.
- `exporting`: Running `journal export`: copies a range of history with its proof (ADR 66).
- `exporting_command`: Running `journal export`, and `journal verify` of an export.
- `forking`: Running `journal fork`: makes a data directory as a broker was, and says how.
- `inspecting`: Running `journal inspect`: prints the events of a journal as a story, as far as they
  are durable.
- `inspection`: Choosing which events to show: filters by place in the journal, time, name, message
  and kind.
- `jobs`: The jobs of the pipeline as commands: `daybook pipeline JOB`.
- `journal_cli`: The command line `journal`: shows what happened in a data directory, and verifies
  it.
- `making_catalogs`: Running `journal catalog`: several processes make the catalogs of different
  segments.
- `past`: The broker as it was after an event: `journal inspect --at`, and what `journal diff`
  compares.
- `pipeline`: `daybook pipeline`: the jobs of the pipeline as commands.
- `replay`: The command `journal replay`: which messages, and to where.
- `replaying`: Running `journal replay`: chooses messages of history, counts them, and sends them
  (ADR 68).
- `salvaging`: Running `journal salvage`: makes a data directory of what is sound in another, and
  reports.
- `sql`: The command `journal sql`.
- `story`: Describing an event: as a line for people, as an object for programs.
- `terminal`: What all commands share: options, numbers, times, tables, errors and exit codes.
- `timeline`: A trail as a picture: the lanes of its queues, and how long it was in which place.
- `totals`: Counting the events of a journal: by kind, and for each queue.
- `trail`: Collects all events of a message, of those it was made from, and of those made from it.
- `trail_command`: The command `journal trail`: which message is asked for, and in which form.
- `trailing`: Running `journal trail`: finds the messages that are asked for, and prints their
  history.
- `verification`: `journal verify`: what is checked, in which pieces, and what is reported.
"""
