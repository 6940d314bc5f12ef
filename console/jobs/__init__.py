"""Work on history, in processes of its own with limits of time and memory.

Modules:

- `answers`: Answers to queries in SQL, for a page and for a file: limited in rows, text, memory and
  disk.
- `check_worker`: A process that carries out one check: it says how far it is by a pipe, and ends
  with its result.
- `checks`: Checks that may run for long: verifications and audits, as the command line carries them
  out, in one process.
- `history`: What pages ask of the history of a data directory: each job is a function of `history/`
  or `recovery/`, as the command line calls it, with an answer that is JSON.
- `job_process`: A process that works for the console: begun with a pipe to it and a folder for its
  files, and ended with both.
- `long_jobs`: Checks that may run for long: one at a time for each broker, in a process of its own.
- `pool`: Processes that work on history for pages: few, limited, and killed when they take too
  long.
- `queries`: Queries in SQL as jobs: they need DuckDB, which the first one imports.
- `worker`: A process that works on history: it does one job after the other, and answers each by a
  pipe.
"""
