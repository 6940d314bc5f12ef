"""The whole broker in one process, driven by a seed, with faults in everything around it. This
folder runs it (`simulation`, `run`, `search`) and has the tests; the folders below are its parts.
"""
