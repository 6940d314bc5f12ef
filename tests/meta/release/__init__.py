"""A release is whole: one package with all its files, a lock with hashes and licences, a bill of
materials, and `make` targets that notice every change.
"""
