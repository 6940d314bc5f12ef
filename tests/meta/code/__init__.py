"""The sources keep the project's rules: layers, lengths, docstrings, and lists that exist once.
Each check is tested on a planted breach.
"""
