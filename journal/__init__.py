"""The journal: append-only segments of hash-chained blocks. Knows bytes and LSNs, not messages."""
