"""Brokers of a cluster, over real sockets and in real processes."""
