"""Asking the journal: what is found by footers, what ids stand for, what was there before.

Shared by the command line and the pipeline. Must never know how answers are shown, or Spark.

Modules:

- `beginning`: What a journal begins with whose first segments left: names and places, told as
  events.
- `names`: What ids stand for, learned from the events on the way.
- `scan`: Finding events in a journal without reading more of it than needed.
"""
