"""Daybook: a durable message broker whose every decision is an event in an append-only journal.

The rooms (`daybook.engine`, `daybook.journal`, ...) are folders at the top of the repository; each
has a link here, so that tools and installations see one ordinary package (docs/adr/0029).
"""
