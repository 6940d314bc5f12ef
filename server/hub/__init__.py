"""The hub connects sessions, engine, outbox and journal writer, without sockets.

It must never know asyncio. Begin with `hub`, then `turns` and `memory`.

Modules:

- `blocked`: Blocked senders: their command waits for space at a full address. They resume in order.
- `deadlines`: The deadlines of sessions: a heap that also bounds its obsolete entries.
- `error_frames`: Logs why connections end, ERROR frames for example, with a limit on the number of
  lines.
- `hub`: The hub connects sessions, engine, outbox and journal writer. No asyncio, no sockets, no
  threads.
- `hub_options`: Converts the configuration to options of the hub and of all sessions. Must never
  know a hub.
- `index_pacing`: Decides when the index advances: rarely while nothing waits for it, at once when
  something does.
- `journal_port`: The interface of the hub to the journal: a writer, and a reader of chunks.
- `memory`: The memory account: memory that clients can make grow, and its limits.
- `memory_limits`: Converts the configuration of memory to the limits of the account and of the
  engine.
- `outbox`: The outbox: output waits here until the events that it reports are durable (promise P1).
- `peer`: A peer: one connection, its session, its transport, and the bytes between them.
- `ports`: The hub's options and notices.
- `shares`: The memory that each user holds, by kind, and which users hold more than their share.
- `slow_consumers`: Slow consumers, by the settings of their address: detects, reports and
  disconnects them.
- `turn_lengths`: How much work a turn may have: less while a client that asks for little waits for
  others.
- `turns`: Turns: which peers continue in the next one, how much work each may do, and turn times
  (ADR 27).
- `unindexed`: The bytes that are journaled but not indexed yet, and their limit.
"""
