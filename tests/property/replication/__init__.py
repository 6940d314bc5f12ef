"""Property tests of what nodes of a cluster say to each other."""
