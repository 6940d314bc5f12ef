"""Messages to send again: which ones, as what, and how far a replay is.

It must never know how messages are sent, or where to.

Modules:

- `fate_words`: Words for what became of messages: how their entries left their queues, or that none
  did.
- `fates`: Choosing messages of history by where they were sent, what they say, and what became of
  them.
- `originals`: Messages as they were when they were sent, for replays: headers, details and bodies.
- `progress_file`: The file with the progress of a replay, for both replays (ADR 17, 68).
- `spans`: The span of a replay of chosen messages, over all its runs, and the messages left to send
  (ADR 68).
"""
