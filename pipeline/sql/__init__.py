"""SQL queries over history in this process.

Modules:

- `asking`: Runs SQL queries over history, reading only the events and columns that they need.
- `planning`: Plans a query: which tables, columns and events it needs, before any event is read.
"""
