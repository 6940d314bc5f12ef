"""Addresses and queues, over restarts and kills: names, routing types, settings, diverts, and how
they come and go.
"""
