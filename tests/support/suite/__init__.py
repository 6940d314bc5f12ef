"""The suite itself: the source of its chance, the order of its files, a check on every replaced
field, and the wheel that it builds.
"""
