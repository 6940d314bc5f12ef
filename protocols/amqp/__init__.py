"""AMQP 1.0: the codec of its frames, and windows and credit; no acceptor speaks it in this version.

Messages, and the types that they share with frames, are in `engine.messages.amqp`.

Modules:

- `wire`: What AMQP's bytes mean, without any connection.
"""
