"""Retention: the messages to carry and the segments to archive before segments leave.

It must never know when a round is due. Begin with `retention_round`.

Modules:

- `missing_content`: Finding queued messages whose content is in a part of the journal that is
  missing.
- `retention_round`: A round of retention as a sequence of steps, independent of how they are
  performed.
- `retirement`: Preparing segments to leave: finding queued messages, the archive, and the base.
- `survey`: Finding the queued messages in segments: they must be carried forward before the
  segments leave.
"""
