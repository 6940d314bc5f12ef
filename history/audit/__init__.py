"""The audit by re-execution: every event is asked for at the engine's own rules (ADR 65).

The rules are in `checks`, by what they are about. The audit must never know how its answer is
shown. Begin with `re_execution`, then `judge`.

Modules:

- `accounts`: The account of every queue between two moments: messages before, entered, left, and
  after.
- `checks`: The rules of every kind of event: each was allowed by the state before it (ADR 65).
- `clock_tolerance`: How far times may go back in an audit by default. Must import nothing slow:
  `--help` shows it.
- `context`: The view of the rules: the state before an event, the time, and the block of the event.
- `direct_ledger`: What only earlier events tell of direct addresses: the table in force, links, and
  deliveries.
- `feature_levels`: Which broker decided an event: the level and epoch that its BrokerStarted
  records (ADR 81).
- `journal_audit`: An audit of a data directory as `journal audit` and the console carry it out: its
  span, its pieces by one or several processes, and its report.
- `judge`: Judging events: each is asked for at the rules of its kind, and then applied to the
  state.
- `pieces`: Cutting an audit into pieces, so that several processes have equal shares of the work.
- `re_execution`: Running an audit over a data directory, in pieces (`history.audit.pieces`).
- `registry`: Which rules are asked about which kind of event: each function registers itself.
- `rules`: The rules that an audit asks, and what it says when one is broken (ADR 65).
"""
