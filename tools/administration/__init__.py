"""The commands of `daybook` that ask a broker for something.

It must never know how the broker carries it out. Begin with `broker_access`.

Modules:

- `broker_access`: Reaching a broker from the command line: by its data directory, or over the
  network.
- `broker_commands`: Commands about the broker of a data directory: queues, addresses, browse,
  settings.
- `configuration`: The command `daybook config`: checking configuration files, and converting those
  of others.
- `connections`: Commands about clients: `daybook connection list|close`, `daybook consumer list`.
- `diverts`: The command `daybook divert`: showing, creating and deleting diverts of a broker.
- `groups`: Commands about message groups: `daybook queue groups` and `daybook queue reset-groups`.
- `health`: The commands `status` and `health`: the state of a broker, and an exit code for it.
- `messages`: `daybook send` and `daybook receive`: a producer and a consumer for the command line.
- `queue_messages`: Commands that do something with messages of a queue: `daybook queue move`,
  `copy`, `retry` and so on. They complete the group `queue`.
- `queued_deaths`: `daybook queue messages`: what is in a queue, and why its messages died, also by
  groups.
- `settings`: Commands about address settings: `daybook settings ADDRESS`, `set` and `remove`.
- `users`: Commands about users: `daybook user add`, `passwd`, `role`, `show` and others.
"""
