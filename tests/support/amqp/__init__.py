"""A peer of AMQP 1.0 without a socket, for tests of the sessions of that protocol."""
