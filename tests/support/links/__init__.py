"""A made-up protocol of links, which proves that one is added with its folder and a line in a
registry (ADR 98).

Frames are msgpack arrays behind their length. A peer says hello, is offered mechanisms, logs in,
opens (container, virtual host), attaches links, and gives each of them credit; a window of frames
is for the connection. Messages have typed headers (`tests.support.worlds.second_format`). Large
bodies leave in frames, between which other links have their turn. Begin with `session`; `serve` is
the broker that speaks it, `client` a client for tests.
"""
