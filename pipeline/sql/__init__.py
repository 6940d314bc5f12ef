"""Answering SQL questions about history in this process.

| module | job |
|---|---|
| `planning` | what a question needs of history, before any of it is read |
| `asking` | the answer |
"""
