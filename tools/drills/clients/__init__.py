"""Clients at work on a broker that may die at any moment, and the ledger of what they heard.

It must never know the broker that it judges: it shares no code with it. Begin with `ledger`.

Modules:

- `client`: What a drill's workload needs of a STOMP client, and the client of this package behind
  that face.
- `ledger`: What clients saw, and what the broker's promises forbid them to see.
- `witness`: A client that looks at a broker under a hardship, when its disk hangs or is full.
- `workload`: Clients at work on a broker that may die at any moment: producers, consumers,
  forwarders.
"""
