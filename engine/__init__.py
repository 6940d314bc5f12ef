"""The broker as a deterministic state machine.

Nothing here reads a clock, a file, a socket or a random number.

Modules:

- `administration`: Commands of administrators, of the configuration, and of retention.
- `broker`: The broker as a deterministic state machine: commands in, events and effects out.
- `commands`: Commands: what sessions, timers and administrators ask of the broker.
- `consumers`: Connections, their consumers, and their transactions: how they begin and how they
  end.
- `core`: What all deciding functions share: the state to read, `emit`, and who may have how much.
- `direct`: Direct addresses: messages go from a sender to receivers without being stored (ADR 109).
- `dispatch`: Dispatch: looks at each queue that was touched, and chooses who gets what is ready.
- `effects`: Effects: what follows from decisions outside of the engine, in the order of the
  decisions.
- `entries`: How entries come into a queue: on arrival, from history, in place of others, or at a
  time.
- `facts`: Facts: the one table of events, and the tables that give their columns a meaning.
- `filters`: Filters, also called selectors: conditions on messages in the syntax of SQL-92 (JMS
  2.0, 3.8.1).
- `limits`: Limits that hold whatever the settings say: work per turn, pools that clients share, and
  lines.
- `link_routes`: Links that are passed on to other containers, unchanged from end to end
  (Interconnect, link routing).
- `links`: Links of direct addresses, by which peers send and receive where nothing is stored.
- `messages`: Messages: their content in any format, and what is known of where they have been.
- `names`: Names of addresses and queues, and patterns over names.
- `queues`: Queues: entries in their order of delivery, in memory and in the store, and their
  consumers.
- `refusals`: Refusals: the answers to commands that the broker does not carry out.
- `routing`: Where a message goes: the queues of an address, diverts, dead letter and expiry
  addresses.
- `settings`: Settings: what operators configure for names, and the rules that follow from these
  values alone.
- `settling`: How a delivery is made, and how it ends.
- `state`: The logical state, and `apply`, the only code that changes it.
- `topology`: Addresses, queues and durable subscriptions: how they begin, how long they stay, how
  they end.
"""
