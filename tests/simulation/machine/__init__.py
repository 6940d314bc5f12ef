"""The simulated world of the broker: clock, disk, network, and its processes, each of which moves
only when the simulation takes a step.
"""
