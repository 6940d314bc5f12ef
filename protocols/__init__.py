"""One folder a protocol: sans-IO sessions that turn bytes into commands and effects into bytes.

No protocol imports another, and none knows sockets, clocks or files.
"""
