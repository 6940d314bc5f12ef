"""Clients of AMQP 1.0 and JMS against a real broker: proton for Python, and Qpid JMS."""
