"""The audit by re-execution: every event is asked for at the engine's own rules (ADR 65).

Modules:

- `accounts`: The account of every queue between two moments: what was there, entered, left, and is
  there.
- `deciders`: Which broker decided an event: the feature level that its BrokerStarted records (ADR
  81).
- `delivering`: The rules of deliveries: from which queue, what first, and to whom.
- `ending`: The rules of how deliveries end, and how messages leave their queues.
- `entering`: The rules of how messages enter queues: which ones, from whom, and as what.
- `grouping`: The rules of events that belong together: transactions, chunks, and what is about the
  broker.
- `judge`: Judging events: each is asked for at the rules of its kind, and then applied to the
  state.
- `registry`: Which rules are asked about which kind of event: each function registers itself.
- `rules`: The rules that an audit asks, and what it says when one is broken (ADR 65).
- `running`: Running an audit over a data directory, in pieces that begin at snapshots.
- `scene`: What the rules see: the state before an event, the time, and the block that the event is
  in.
- `topology`: The rules of what there is: connections, consumers, addresses and queues, and who made
  them.
"""
