"""Surroundings of a started broker: configurations of Artemis, certificates, pages of commands, and
a broker in the process of its test.
"""
