"""The broker as a deterministic state machine.

| module | what it holds |
|---|---|
| `events` | the one table of events: columns, kinds, reasons, details |
| `commands`, `refusals` | what can be asked of the broker, and how it says no |
| `broker` | the door: `Broker.handle`, `dispatch`, `take` |
| `core`, `pending` | `emit`, and the open batch of events |
| `routing`, `delivery`, `settling`, `expiry`, `subscriptions`, `transactions`, `connections`,
  `topology`, `administration` | deciding |
| `state`, `apply`, `digest` | the logical state, what changes it, and its fingerprint |
| `invariants` | what is true of every state, checked after a fold |
| `headers`, `settings` | header blocks; address settings |

Nothing here reads a clock, a file, a socket or a random number.
"""
