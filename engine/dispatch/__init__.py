"""Dispatch: looks at each queue that was touched, and chooses who gets what is ready.

It must never know why an entry became ready. Begin with `dispatch`, then `consumer_choice`.

Modules:

- `browsers`: Browsers: they read the messages of a queue in order, and take none (ADR 50).
- `consumer_choice`: Choosing the consumer of each entry, among those that can take it.
- `dispatch`: Dispatching: looks at every queue that was touched, and delivers what is ready.
- `resuming`: Resuming deliveries: a message is in flight again to a client that has had it all the
  time.
"""
