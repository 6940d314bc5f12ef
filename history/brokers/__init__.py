"""Questions to the journals of several brokers, between which messages went (ADR 111).

It must never know how answers are shown. Begin with `journals`.

Modules:

- `exchanges`: Comparing journals: a message that another broker accepted must be in its journal,
  and once.
- `journals`: The journals of several brokers, and what ties them together: the stops of their
  messages.
- `journeys`: Following a message from broker to broker: back to where it began, and from there to
  all brokers that got it.
"""
