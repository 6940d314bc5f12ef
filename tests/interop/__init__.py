"""Brokers as processes, as their users meet them: clients that others wrote, bare sockets (`wire`)
and commands ask for the promises of the pages. Each folder is about one kind of promise; `seed`
follows the pages that the first users came with.
"""
