"""All input and output of the broker.

Modules:

- `administration`: Requests of administrators over the control socket, and the views that answer
  them.
- `config_keys`: The vocabulary of the configuration: its keys, the kinds of their values, and how
  files are read.
- `configuration`: The configuration: files and flags become checked, frozen structs.
- `configured`: The commands that put a configuration in force in the engine, in order.
- `configuring`: Putting a configuration in force: its commands, one after the other, each durable
  before the next.
- `connectors`: Connections that the broker opens to other brokers and routers, and keeps open (ADR
  110).
- `console_keeper`: Keeps the console of `[console]` running: beside a broker, or beside a node of a
  cluster, whichever node leads (ADR 112).
- `ending`: The stop of a broker: all decided events become durable, if that is still possible.
- `foreign`: Configurations of other brokers, read as if they were ours. It must never act on the
  configurations that it reads.
- `history`: The history of a running broker: its index, its retention and its signatures.
- `hub`: The hub connects sessions, engine, outbox and journal writer, without sockets.
- `monitoring`: The state of a broker for operators: health, metrics, the disk.
- `network`: Sockets: acceptors, their layers (TLS, WebSocket), and the peers behind them.
- `process`: The process of a broker: logs, signals, descriptors, memory and disk of the machine.
- `rights`: Puts the permissions of the configuration in force for the users of a broker.
- `service`: The broker as a process: start, serve, reload, stop.
- `standbys`: The door from the server to the room `replication`: imported only where there is a
  [replication].
- `users`: Users: their logins, and records of refusals.
"""
