"""The life of a broker: its start, its end, its configuration, its probe, and its cost while
nothing happens.
"""
