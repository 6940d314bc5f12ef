"""Answering SQL questions about history in this process.

Modules:

- `asking`: Answering questions about history in SQL, with only what they need of it read.
- `planning`: What a question needs of history: which tables, columns and events, before any is
  read.
"""
