"""SQL queries over history in this process.

Modules:

- `asking`: Runs SQL queries over history, reading only the events and columns that they need.
- `errors`: Errors of SQL queries, in words, with line and character.
- `fence`: Decides what a query may use: the tables of history, and functions that compute.
- `planning`: Plans a query: which tables, columns and events it needs, before any event is read.
- `saved`: Saved queries: those of docs/forensics.md, for a span of time that is asked about.
- `tables`: The tables that queries read, and their columns, each with its meaning.
- `writing`: Answers in forms for programs: CSV and JSON, written while they are read.
"""
