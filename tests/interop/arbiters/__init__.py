"""Arbiters, each with the real thing behind it: etcd, and a file."""
