"""The door from the server to the room `replication`: imported only where there is a [replication].

Modules:

- `arbiters`: The arbiter of a configuration.
- `cut_tails`: Tails of journals that a cluster cut off: each is a data directory of its own for a
  while.
- `led`: The broker of a cluster: events count as durable when enough nodes have them (ADR 118).
- `node_checks`: The faults that keep a node from working, as far as they can be seen before it
  starts.
- `node_files`: The files of a node in its data directory: while it follows it holds the lock,
  indexes, and lets leave what has left the leader.
- `node_probe`: The acceptors of supervisors and Prometheus while a node follows: it is alive, and
  not ready.
- `node_service`: A node of a cluster as a service: the process that `daybook serve` is where there
  are standbys.
- `node_socket`: The control socket of a node: `daybook cluster`, `daybook lead` and the console ask
  here, also while no broker runs.
- `node_status`: The state of a node, and of the others as it sees them, as one table of names and
  values.
- `node_users`: The users of a node whose broker does not run: their logins at its console, and
  their rights.
- `settings`: The settings of a cluster, from the configuration, for the node and for its broker.
"""
