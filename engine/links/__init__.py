"""Links of direct addresses, by which peers send and receive where nothing is stored.

Must never know an event or a command: `engine.direct` decides. Begin with `links`.

- `links`: Links of direct addresses, their messages in flight, and the addresses themselves.

Modules:

- `links`: Links of direct addresses, their messages in flight, and the addresses themselves.
- `routed`: Links that are passed on to other containers: two ends, each on a connection of its own.
"""
