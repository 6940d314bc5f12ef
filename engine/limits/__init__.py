"""Limits that hold whatever the settings say: work per turn, pools that clients share, and lines.

It must never know queues or messages. Begin with `budget`.

Modules:

- `budget`: The work that the engine may still do before others have their turn (ADR 27).
- `host_limits`: The limits of a virtual host, as the configuration says them (ADR 58).
- `pools`: The pools that all clients share, and the share that one user or one connection may take.
- `waiting_senders`: Senders that wait for room, in line at the address they wait for: first come,
  first served.
"""
