"""The commands of `daybook` that ask a broker for something.

It must never know how the broker carries it out. Begin with `broker_access`.

Modules:

- `broker_access`: Reaching a broker from the command line: by its data directory, or over the
  network.
- `broker_commands`: Commands about the broker of a data directory: queues, addresses, diverts,
  clients, browse.
- `cluster`: The commands `cluster` and `lead`: which node of a cluster leads, how far the others
  are, and a clean hand-over (ADR 118).
- `configuration`: The command `daybook config`: checks configuration files, and converts those of
  other brokers.
- `health`: The commands `status` and `health`: the state of a broker, and an exit code for it.
- `messages`: `daybook send` and `daybook receive`: a producer and a consumer for the command line.
- `queue_details`: The command `daybook queue show`: all that the page of a queue in the console
  shows, but no rates, which need two looks.
- `queued_deaths`: `daybook queue messages`: the messages of a queue, and why they died, also by
  groups.
- `request_commands`: The commands of `daybook` that the table of administration describes, and the
  code that all others share.
- `settings`: Commands about address settings; most of them are described by the table of
  administration.
- `traffic`: How `daybook send` and `daybook receive` speak to a broker: by STOMP or by AMQP 1.0.
- `users`: Commands about users: `daybook user add`, `passwd`, `role`, `show` and others.
"""
