"""Queues out of memory: the index, its tables and pages, and the fold that fills them."""
