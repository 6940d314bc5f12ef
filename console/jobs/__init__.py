"""Work on history, in processes of its own with limits of time and memory.

Modules:

- `history`: What pages ask of the history of a data directory: each job is a function of `history/`
  or `recovery/`, as the command line calls it, with an answer that is JSON.
- `pool`: Processes that work on history for pages: few, limited, and killed when they take too
  long.
- `worker`: A process that works on history: it does one job after the other, and answers each by a
  pipe.
"""
