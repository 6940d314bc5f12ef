"""The command lines `daybook` and `journal`, and the demo. The only room that prints for people.

Modules:

- `administration`: Commands about the broker of a data directory: queues, addresses, browse,
  settings.
- `archive`: The commands `journal archive`: what an archive holds, proving it, and fetching from
  it.
- `archiving`: Running `journal archive`: what an archive holds, proving it, and fetching from it.
- `connections`: Commands about who is connected: `daybook connection list|close`, `daybook consumer
  list`.
- `counting`: Running `journal stat`: sizes of the segments, events by kind, and what went through
  queues.
- `daybook`: The command line `daybook`: running a broker, and talking to one.
- `demo`: The demo: a real broker, real clients, two kill -9 in the middle, and a table that proves
  it.
- `demo_clients`: The clients of the demo: producers and consumers on stomp.py, and what they saw.
- `demo_proof`: Judging the demo: what the clients saw must add up, by itself and with what the
  journal says.
- `entry`: The commands as they are installed: quiet about Ctrl-C from the first moment on.
- `extras`: What to say when a package is missing that an extra of Daybook brings.
- `failures`: How the command lines end: with a sentence and an exit code, never with a traceback.
- `health`: The commands `status` and `health`: how a broker is doing, and an exit code that says
  so.
- `history_options`: Options that commands about history share: which data directory, which archive,
  which output.
- `index_verification`: Proving the index of a data directory: by itself, against the journal, and
  against the fold.
- `inspecting`: Running `journal inspect`: the events of a journal as a story, as far as they are
  durable.
- `inspection`: Choosing which events to tell: filters by place in the journal, time, name, message
  and kind.
- `jobs`: The jobs of the pipeline as commands: `daybook pipeline JOB`.
- `journal_cli`: The command line `journal`: asking a data directory what happened, and whether it
  is intact.
- `layout`: Where the columns of a table go on a terminal of some width; pure arithmetic over texts.
- `messages`: `daybook send` and `daybook receive`: a producer and a consumer for the command line.
- `numbers`: Ids and LSNs on the command line: numbers as they are printed, with separators or
  without.
- `opening`: Opening what commands read: the live journal of a data directory, and its archive.
- `paths`: Paths that a command line names: what is asked of them before anybody opens anything.
- `pipeline`: `daybook pipeline`: the jobs of the pipeline as commands.
- `pipeline_demo`: The demo of the pipeline: history of a broker that was killed twice, asked in
  every way.
- `printing`: Tables and progress bars on a terminal, plain text otherwise, JSON for programs.
- `sql`: The command `journal sql`.
- `story`: Telling an event: as a line for people, as an object for programs.
- `terminal_tables`: Tables on a terminal: as wide as it is, with fewer columns, or a card for each
  row.
- `texts`: Times, names and bodies as text that a terminal or a JSON reader can take.
- `times`: Reading times that people write: `14:05`, `2026-11-20T14:05`, `10m` (ago).
- `totals`: Counting what a journal tells: events by kind, and what went through each queue.
- `trail`: Everything that ever happened to a message, to those it was made from, and to those it
  became.
- `trailing`: Running `journal trail`: the biography of a message, printed.
- `users`: Commands about who may log in: `daybook user add|list|remove`. They edit the users file.
- `verification`: Proving a data directory: chain, crcs and footers, then the fold, digests and
  invariants.
- `verifying`: Running `journal verify`: proving a data directory, and saying what is wrong with it.
- `version_option`: The option --version of the command lines. Reading the version takes longer than
  the rest.
"""
