"""The state of a broker for operators: health, metrics, the disk.

It must never decide anything. Begin with `health`, then `figures`.

Modules:

- `cluster_figures`: The metrics of a node of a cluster: name, meaning, and how each is read from
  its status.
- `cluster_health`: The troubles of a cluster, as one of its nodes sees them.
- `disk_watch`: Watching the disk of the data directory: is it full, by its limits or because no
  segment fits?
- `figures`: The metrics of a broker: name, meaning, and how each is read.
- `health`: The problems of a broker, and whether they prevent it from accepting messages.
- `oldest_message`: The ready message of all queues that has waited for longest.
- `paused_queues`: Paused queues in which messages wait: how many there are, and the names of some.
- `rates`: Rates of a broker, from two answers of its status, and when its disk is full.
- `status_view`: The figures for Watching protocols: whether the server is live and ready, and its
  metrics.
"""
