"""What all deciding functions share: the state to read, `emit`, and who may have how much.

It must never know a single kind of command. Begin with `core`.

Modules:

- `backlog`: The backlog of dispatch: queues that were touched and were not looked at yet.
- `capacity`: Deciding what happens when an address, the broker or the disk is full (ADR 10).
- `compiled_filters`: Compiled filters by their texts: each is parsed once for all that use it, and
  in slices.
- `core`: What all deciding functions share: the state to read, and `emit`, the only way to change
  it.
- `credit`: The credit of takers: of consumers of queues, and of receivers of direct addresses.
- `hosts`: Deciding whether a virtual host may have more, and whether there is one (ADR 58).
- `lifetime`: How long queues and addresses stay that nobody uses: which go, and when (ADR 46).
- `open_transactions`: The open transactions of all connections: their operations, and the memory
  they take together.
- `owners`: The queues and temporary addresses that sessions and links of open connections own (ADR
  102).
- `parts`: The parts of what deciding functions share: room, work, rights, and direct addresses.
- `permission_checks`: Checking that the user of a connection may do what its command asks for
  (`engine.settings.permissions`).
- `queue_names`: Finding a queue by the name that somebody gives it: QUEUE, or ADDRESS::QUEUE (fully
  qualified).
- `quotas`: Deciding whether a client may create more: connections, queues, addresses,
  subscriptions, ids.
- `residency`: Deciding what leaves memory; residency never changes what is delivered (ADR 7).
- `unreadable`: Queues whose content cannot be read for now: only these rest, all others are served
  (ADR 21).
"""
