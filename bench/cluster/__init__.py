"""How fast a cluster recovers from the loss of a node.

Modules:

- `failover`: How fast a cluster recovers: `python -m bench.cluster.failover`.
"""
