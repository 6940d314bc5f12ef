"""The code that all commands share: options, numbers, times, tables, errors and exit codes.

It must never know one command. Begin with `failures`, then `printing`.

Modules:

- `exit_codes`: The exit codes of the command lines. Those of `daybook health` are in
  `server.monitoring.health`.
- `extras`: The error for a missing package that belongs to one of Daybook's extras.
- `failures`: How the command lines report errors: with a sentence and an exit code, never with a
  traceback.
- `history_options`: Options shared by commands about history: which data directory, which archive,
  which output.
- `interruption`: Ctrl-C for a command that speaks to a peer: it ends between two steps, never
  within one.
- `kept_reports`: Keeping the report of a command in the data directory that it is about.
- `layout`: Computes the widths of the columns of a table on a terminal; pure arithmetic on texts.
- `memory_option`: The option --memory: how much the embedded SQL engine may take before work goes
  to disk.
- `moments`: Moments on the command line: an LSN, or a time.
- `numbers`: Numbers on the command line: ids and LSNs as commands print them, seconds, and rates.
- `opening`: Opening the input of commands: the live journal of a data directory, and its archive.
- `paths`: Paths on a command line: checks before anything is opened.
- `printing`: Tables and progress bars on a terminal, plain text otherwise, JSON for programs.
- `terminal_tables`: Tables on a terminal: in its full width, with fewer columns, or as a card for
  each row.
- `times`: Options with times that users write (`daybook.times`).
- `version_option`: The option --version of the command lines. Reading the version takes longer than
  the rest.
"""
