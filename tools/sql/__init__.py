"""The command `journal sql`.

Modules:

- `command`: The command `journal sql`: questions over history in SQL.
- `forms`: The forms in which an answer is written, and the files that imply them.
- `output`: Writing the answer to a question: as a table for people, as CSV, JSON or Parquet for
  programs.
- `running`: Running `journal sql`: one question, or a shell. Imports Arrow and DuckDB.
- `shell`: The shell of `journal sql`: reads questions from a terminal, with history and completion.
"""
