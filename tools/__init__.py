"""The command lines `daybook` and `journal`, and the demo. The only room that prints for people.

Modules:

- `administration`: Commands about the broker of a data directory: queues, addresses, browse,
  settings.
- `archive`: The commands `journal archive`: listing an archive, verifying it, and fetching from it.
- `archiving`: Running `journal archive`: listing an archive, verifying it, and fetching from it.
- `auditing`: Running `journal audit`: the account of every queue between two moments, and every
  breach.
- `catalog_verification`: Verifying the catalogs of a data directory: each is made again from its
  blocks, and compared.
- `cataloging`: The command `journal catalog`: makes the catalogs that a journal does not have yet.
- `configuration`: The command `daybook config`: checking configuration files, and converting those
  of others.
- `connections`: Commands about clients: `daybook connection list|close`, `daybook consumer list`.
- `counting`: Running `journal stat`: sizes of the segments, events by kind, and messages by queue.
- `daybook`: The command line `daybook`: running a broker, and sending requests to one.
- `demo`: The demo: a real broker, real clients, two kill -9 in the middle, and a table of what was
  proven.
- `demo_clients`: The clients of the demo: producers and consumers on stomp.py, and what they saw.
- `demo_proof`: Checks the demo: the records of the clients must be consistent, and agree with the
  journal.
- `difference`: Running `journal diff`: what changed between two moments.
- `diverts`: The command `daybook divert`: showing, creating and deleting diverts of a broker.
- `drills`: Drills: rehearsing crashes and losses on real journals and scratch brokers (ADR 69).
- `entry`: The installed commands: they handle Ctrl-C quietly from the first moment on.
- `exit_codes`: The exit codes of the command lines. Those of `daybook health` are in
  `server.health`.
- `export_descriptions`: Checking the files of an export that describe it: the id of the data
  directory, and the manifest of each segment. Nobody signs them, so they have to say what the
  segments say. Changes nothing.
- `export_keys`: The changes of the signing key that an export takes along, so that one key of its
  journal proves it, whichever was in use in its range (ADR 66).
- `export_verification`: Verifying an export: that it is what it was, and what proves that it is a
  part of a history (ADR 66).
- `exporting`: Running `journal export`: copies a range of history with its proof (ADR 66).
- `exporting_command`: Running `journal export`, and `journal verify` of an export.
- `extras`: The error for a missing package that belongs to one of Daybook's extras.
- `failures`: How the command lines report errors: with a sentence and an exit code, never with a
  traceback.
- `folding_ranges`: Folding a journal in ranges, for `journal verify`: by several processes, and
  resumable.
- `forking`: Running `journal fork`: makes a data directory as a broker was, and says how.
- `groups`: Commands about message groups: `daybook queue groups` and `daybook queue reset-groups`.
- `health`: The commands `status` and `health`: the state of a broker, and an exit code for it.
- `history_options`: Options shared by commands about history: which data directory, which archive,
  which output.
- `index_verification`: Verifying the index of a data directory: by itself, against the journal, and
  against the fold.
- `inspecting`: Running `journal inspect`: prints the events of a journal as a story, as far as they
  are durable.
- `inspection`: Choosing which events to show: filters by place in the journal, time, name, message
  and kind.
- `jobs`: The jobs of the pipeline as commands: `daybook pipeline JOB`.
- `journal_cli`: The command line `journal`: shows what happened in a data directory, and verifies
  it.
- `layout`: Computes the widths of the columns of a table on a terminal; pure arithmetic on texts.
- `making_catalogs`: Running `journal catalog`: several processes make the catalogs of different
  segments.
- `memory_option`: The option --memory: how much the embedded SQL engine may take before work goes
  to disk.
- `messages`: `daybook send` and `daybook receive`: a producer and a consumer for the command line.
- `moments`: Moments on the command line: an LSN, or a time.
- `newest_anchor`: Finding the newest anchor of a journal: what was signed last, or the newest
  block.
- `numbers`: Numbers on the command line: ids and LSNs as commands print them, seconds, and rates.
- `opening`: Opening the input of commands: the live journal of a data directory, and its archive.
- `origins`: What a replayed message is a replay of, in words.
- `past`: The broker as it was after an event: `journal inspect --at`, and what `journal diff`
  compares.
- `paths`: Paths on a command line: checks before anything is opened.
- `pipeline`: `daybook pipeline`: the jobs of the pipeline as commands.
- `pipeline_demo`: The demo of the pipeline: queries the history of a broker that was killed twice,
  in every way.
- `printing`: Tables and progress bars on a terminal, plain text otherwise, JSON for programs.
- `proving`: Proving that a journal is the one that was signed and anchored, for `journal verify`.
- `queue_messages`: Commands that do something with messages of a queue: `daybook queue move`,
  `copy`, `retry` and so on. They complete the group `queue`.
- `queued_deaths`: `daybook queue messages`: what is in a queue, and why its messages died, also by
  groups.
- `reaching`: Reaching a broker from the command line: by its data directory, or over the network.
- `replay`: The command `journal replay`: which messages, and to where.
- `replaying`: Running `journal replay`: chooses messages of history, counts them, and sends them
  (ADR 68).
- `salvaging`: Running `journal salvage`: makes a data directory of what is sound in another, and
  reports.
- `settings`: Commands about address settings: `daybook settings ADDRESS`, `set` and `remove`.
- `signing`: The commands `journal keygen` and `journal anchor`.
- `snapshot_verification`: Verifying the snapshots of a data directory and its archive against the
  fold of the journal.
- `sql`: The command `journal sql`.
- `story`: Describing an event: as a line for people, as an object for programs.
- `terminal_tables`: Tables on a terminal: in its full width, with fewer columns, or as a card for
  each row.
- `texts`: Times, names and bodies as text that is safe for terminals and JSON readers.
- `timeline`: A trail as a picture: the lanes of its queues, and how long it was in which place.
- `times`: Parsing times that users write: `14:05`, `2026-11-20T14:05`, `10m` (ago).
- `totals`: Counting the events of a journal: by kind, and for each queue.
- `trail`: Collects all events of a message, of those it was made from, and of those made from it.
- `trail_command`: The command `journal trail`: which message is asked for, and in which form.
- `trailing`: Running `journal trail`: finds the messages that are asked for, and prints their
  history.
- `trusted_keys`: The public keys that a verification trusts: the given ones, and those that are
  linked with them by changes of the key that both keys have signed (ADR 66).
- `units`: The units of numbers that commands print: every number says what it counts.
- `users`: Commands about users: `daybook user add`, `passwd`, `role`, `show` and others.
- `verification`: Verifying a data directory: chain, crcs and footers, then the fold, digests and
  invariants.
- `verify_state`: What `journal verify` has verified so far, in a file of its own, so that it can be
  resumed.
- `verify_work`: The pieces of `journal verify` that can be done in any order and by several
  processes: the check of one segment, and the fold of one range.
- `verifying`: Running `journal verify`: verifies a data directory, and reports what is wrong with
  it.
- `version_option`: The option --version of the command lines. Reading the version takes longer than
  the rest.
- `workers`: Processes that carry out pieces of long work, such as checking one segment of many.
"""
