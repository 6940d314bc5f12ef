"""The journal keeps its history: earlier moments, replay, forks, retention, signatures, and data
directories of other releases.
"""
