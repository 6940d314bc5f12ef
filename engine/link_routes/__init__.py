"""Links that are passed on to other containers, unchanged from end to end (Interconnect, link
routing).

Modules:

- `passing`: Deciding about link routes: which container gets a link, and what passes along it.
"""
