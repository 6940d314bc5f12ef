"""Trouble around a broker: processes and disks that hang, full disks, damage and floods cost time
at most, never a message.
"""
