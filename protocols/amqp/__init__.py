"""AMQP 1.0: connections, sessions and links, without input and output.

Messages, and the types that they share with frames, are in `engine.messages.amqp`. It must never
know another protocol, a socket or a clock. Begin with `connection`, then `sessions`, `incoming` and
`outgoing` (ADR 103).

Modules:

- `addressing`: What addresses of sources and targets mean: names on a virtual host, queues, routing
  types.
- `arriving`: Reading an arriving message: its sections become a `Send`.
- `attaching`: Attaching and detaching links: what sources and targets ask for becomes commands of
  the broker.
- `auto_links`: Links that the broker attaches by itself, each on a session of its own (ADR 110).
- `connection`: A connection of AMQP 1.0: bytes of one peer in, commands to the broker, bytes out.
- `coordinator`: A link to the coordinator: transactions are declared and discharged by its messages
  (part 4).
- `dialling`: A connection that the broker opens: it speaks first, and logs in as a client (ADR
  110).
- `faults`: What ends a session or a link alone, and how refusals of the broker are said in AMQP.
- `incoming`: A link by which the peer sends. It alone waits when its address is full.
- `leaving`: How a delivery leaves: the header of its transfer, and the message as it came; or, of
  another format, as the table of conversions says it.
- `offer`: AMQP's offer to the registry. Must never know where the values of options come from.
- `options`: The options of an acceptor that speaks AMQP 1.0. Must never know where their values
  come from.
- `outcomes`: What states of deliveries mean to the broker (part 3, section 3.4). Must never know a
  link.
- `outgoing`: A link by which the peer receives: the receiver of its consumer, and the taker of
  large bodies.
- `output`: The output of a connection: what its sessions and links write, and what they ask the
  broker.
- `own_sessions`: Sessions that the broker begins on a connection: of its auto-links, and of links
  that it passes on to the peer.
- `routed`: Links that are passed on to another container, and those of others that a container
  gets.
- `sessions`: A session: windows, links by their handles, deliveries by their numbers (part 2,
  section 2.5).
- `tags`: The tags of deliveries: the id of the message, and a proof that the broker gave it to this
  link.
- `tracing`: Where a message has been: the brokers that it passed, as an annotation of the message
  (ADR 111).
- `wire`: What AMQP's bytes mean, without any connection.
"""
