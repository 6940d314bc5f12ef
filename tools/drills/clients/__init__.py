"""Clients at work on a broker that may die at any moment, and the ledger of the answers they got.

It must never know the broker that it judges: it shares no code with it. Begin with `ledger`.

Modules:

- `amqp_client`: The client of a drill's workload over AMQP 1.0, by the client of this package.
- `client`: The interface of a drill's workload to a client, and its implementation by the STOMP
  client of this package.
- `drain`: Draining the queues of a drill at its end: all that waits is taken, and answered.
- `ledger`: The record of clients, checked against the broker's promises.
- `witness`: A client that looks at a broker under a hardship, when its disk hangs or is full.
- `workload`: Clients at work on a broker that may die at any moment: producers, consumers,
  forwarders.
"""
