"""Asking the journal: what is found by footers, what ids stand for, what was there before.

Shared by the command line and the pipeline. Must never know how answers are shown, or Spark.
"""
