"""The judges of every step: nothing leaves before it is durable, and every fact agrees with the
knowledge of the clients.
"""
