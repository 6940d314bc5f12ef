"""Clusters of whole brokers with a real etcd, each machine in a network of its own.

Modules:

- `campaign`: Rounds in which something goes wrong with a cluster while clients work, and the proof.
- `clients`: Clients that roam: they use whichever machine serves, and record what it confirmed.
- `cluster`: Three machines, each with a member of etcd and a node, and what happens to them.
- `judge`: Judges journals and the records of clients when all has ended.
- `loopback`: The network on this machine's loopback, where namespaces cannot be had.
- `mishaps`: What goes wrong, drawn by chance.
- `mistakes`: Mistakes that are planted into the processes of a cluster.
- `network`: What both kinds of network have in common.
- `spaces`: A network of namespaces, whose packets a switch delays, loses and blocks.
- `switch`: The process that has the namespaces and moves packets between them.
"""
