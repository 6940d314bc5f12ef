"""Rehearsing the loss of nodes on a cluster of scratch brokers.

It must never touch the operator's data, cluster or arbiter. Begin with `drill`.

Modules:

- `agreement`: Whether the journals of all nodes agree at the end, and have nothing left in the
  queues.
- `cluster`: A cluster of three nodes on scratch data and loopback, and the list of its addresses.
- `drill`: Running `daybook drill failover`: a cluster on scratch data loses nodes while clients
  work.
- `etcd`: An etcd of one member for a drill: its data is scratch, and only this machine reaches it.
- `mishaps`: The mishaps of a cluster: what happens to a node, and how it comes back.
"""
