"""Laws of decisions: the engine agrees with plain models of queues, filters, patterns, settings and
rights, and a fold of its events is its live state.
"""
