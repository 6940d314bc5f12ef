"""The audit by re-execution: every event is asked for at the engine's own rules (ADR 65).

Modules:

- `accounts`: The account of every queue between two moments: what was there, entered, left, and is
  there.
- `belonging`: The rule of message groups: all messages of a group go to one consumer, as long as it
  is there.
- `cutting`: Cutting an audit into pieces, so that several processes have equal shares of the work.
- `deciders`: Which broker decided an event: the feature level that its BrokerStarted records (ADR
  81).
- `delivering`: The rules of deliveries: from which queue, what first, and to whom.
- `diverting`: The rules of diverts: which of them take a message, and that each copy is there,
  once.
- `dropping`: The rules of messages that entered no queue: each reason is decided again, on the
  state then.
- `ending`: The rules of how deliveries end, and how messages leave their queues.
- `entering`: The rules of how messages enter queues: which ones, from whom, and as what.
- `grouping`: The rules of events that belong together: transactions, chunks, and what is about the
  broker.
- `judge`: Judging events: each is asked for at the rules of its kind, and then applied to the
  state.
- `parting`: The rules of ends: consumers, deliveries and transactions end for the reason for which
  their connection does, or for one of their own.
- `registry`: Which rules are asked about which kind of event: each function registers itself.
- `replacing`: The rules of last values: what a newer message replaces, and that it leaves at once.
- `requests`: The rules of administrators' requests: each covers what it asked for.
- `rules`: The rules that an audit asks, and what it says when one is broken (ADR 65).
- `running`: Running an audit over a data directory, in pieces (`history.audit.cutting`).
- `scene`: What the rules see: the state before an event, the time, and the block that the event is
  in.
- `topology`: The rules of what there is: connections, consumers, addresses and queues, and who made
  them.
- `waiting`: The rules of messages that wait: held, scheduled by their sender or after a failure,
  and due.
"""
