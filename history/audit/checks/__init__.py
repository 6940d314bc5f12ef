"""The rules of every kind of event: each was allowed by the state before it (ADR 65).

A rule registers itself for its kind (`history.audit.registry`); a module of rules that is new is
named here. Rules must never know which piece of history is audited, or how. Begin with `arrivals`.

Modules:

- `annotations`: The rule of annotations: a message has those that its consumers noted, and so have
  its copies.
- `arrivals`: The rules of how messages enter queues: which ones, from whom, and as what.
- `deliveries`: The rules of deliveries: from which queue, what first, and to whom.
- `departures`: The rules of how deliveries end, and how messages leave their queues.
- `direct`: The rules of direct addresses: which names are, who gets a message, and that each
  delivery ends.
- `diverts`: The rules of diverts: which of them take a message, and that each copy is there, once.
- `drops`: The rules of messages that entered no queue: each reason is decided again, on the state
  then.
- `ends`: The rules of ends: consumers, deliveries and transactions end for the reason for which
  their connection does, or for one of their own.
- `last_values`: The rules of last values: a newer message replaces an older one, which leaves at
  once.
- `message_groups`: The rule of message groups: all messages of a group go to one consumer, as long
  as it is there.
- `related_events`: The rules of events that belong together: transactions, chunks, and what is
  about the broker.
- `requests`: The rules of administrators' requests: each covers what it asked for.
- `topology`: The rules of what there is: connections, consumers, addresses and queues, and who made
  them.
- `waiting`: The rules of messages that wait: held, scheduled by their sender or after a failure,
  and due.
"""

from daybook.history.audit.checks import (  # noqa: F401 (each registers its rules)
    arrivals,
    deliveries,
    departures,
    direct,
    diverts,
    drops,
    ends,
    last_values,
    message_groups,
    related_events,
    requests,
    topology,
    waiting,
)
