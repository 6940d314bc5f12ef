"""Arbiters for tests: etcd as a process, and a gateway that does what it should not."""
