"""The broker's process of a node: one that waits, and one that leads.

Modules:

- `broker_process`: The broker's process of a node: started, heard, and ended in time.
- `warm_broker`: A broker that waits while its node follows, so that a new leader serves after a
  moment.
"""
