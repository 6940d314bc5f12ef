"""Direct addresses: messages go from a sender to receivers without being stored (ADR 109).

Must never know a queue, or how a peer hears of what was decided. Begin with `forwarding`.

- `attaching`: Deciding about links of direct addresses: how they begin and end.
- `forwarding`: Deciding who gets a message that is sent to a direct address.
- `serving`: Handing messages to receivers of direct addresses, and the end of each delivery.
- `settling`: Deciding how a receiver of a direct address ends deliveries.

Modules:

- `attaching`: Deciding about links of direct addresses: how they begin and end.
- `choosing`: Choosing who gets a message to a direct address: its receivers, fallback links, or a
  queue here.
- `forwarding`: Forwarding messages that are sent to direct addresses (`engine.direct.choosing` says
  to whom).
- `serving`: Handing messages to receivers of direct addresses, and the end of each delivery.
- `settling`: Deciding how a receiver of a direct address ends deliveries.
"""
