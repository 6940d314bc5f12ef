"""What AMQP's bytes mean, without any connection.

It must never know a session. Begin with `frames`, then `performatives`.

Modules:

- `credit`: The credit of a link by which the peer sends (part 2, section 2.6.7).
- `errors`: The errors of a peer, and the conditions of the specification that name them.
- `frames`: Frames and protocol headers as bytes (part 2, sections 2.2 and 2.3; part 5, section
  5.3).
- `hot`: The three performatives that come with every message: transfer, disposition and flow, by
  hand.
- `kinds`: The types of fields that only links, sessions and connections have. Must never know a
  frame.
- `performatives`: What frames say: the performatives of part 2, section 2.7, and those of SASL
  (part 5).
- `serial`: Numbers of 32 bits that begin again at 0 (RFC 1982): ids of transfers, counts of
  deliveries.
- `table`: The table of composite types: the number of each descriptor, and what it can be used as.
- `termini`: What links and deliveries say: sources, targets, states and outcomes (part 3, sections
  3.4 and 3.5), and transactions (part 4).
- `windows`: The windows of a session (part 2, section 2.5.6): how many transfers either side may
  send.
"""
