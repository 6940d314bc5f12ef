"""Clusters with standbys, in a simulated world of clocks, disks, connections and a lease."""
