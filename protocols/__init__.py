"""One folder a protocol: sans-IO sessions that turn bytes into commands and effects into bytes.

No protocol imports another, and none knows sockets, clocks or files.

Modules:

- `stomp`: STOMP 1.0, 1.1 and 1.2: sessions without input and output.
"""
