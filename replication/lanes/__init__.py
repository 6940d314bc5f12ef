"""Lanes: small blocks go from the leader's broker to followers without a detour (ADR 119).

Modules:

- `counting`: What a broker counts as durable itself, and what its node is to hear of it (ADR 119).
- `lane`: One connection of a leader's broker to a follower (ADR 119).
- `lanes`: The lanes of a broker: opened again and again, and used for its small blocks (ADR 119).
- `order`: Which lanes a block goes over at once: as many as count (ADR 119).
"""
