"""Speaking to a broker from outside, as its clients do. Must never know the broker's insides.

Modules:

- `control`: Talking to the broker that runs on a data directory, over its control socket.
- `stomp`: A small synchronous STOMP 1.2 client for the command line and the pipeline.
"""
