"""Several brokers in one simulation, joined by connections that break: bridges, waypoints, shards,
and fallback. `world` is where to begin; everything of one broker is that of `tests.simulation`.
"""
