"""Attacks by clients that are logged in, one function each.

They must never know how an honest client is measured. Begin with `scenarios`.

Modules:

- `attacks`: Attacks by clients that are logged in: each keeps the broker busy, so that others must
  wait.
- `console_attacks`: Attacks on the console of a broker: by strangers, by slow browsers, and by
  users with many tabs.
- `filter_attacks`: Attacks with selectors that are long, many, or different each time
  (`bench.attacks.attacks`).
- `kind_attacks`: Attacks with the kinds of queues and messages that have work of their own
  (`bench.attacks.attacks`).
- `scenarios`: What attacks have in common: a peer that does not wait, and what an attack is made
  of.
"""
