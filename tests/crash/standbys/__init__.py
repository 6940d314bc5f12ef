"""Clusters of real processes on the loopback: killed, stopped, and cut off from each other."""
