"""Measuring Daybook against a floor and against its peers.

frames    what a benchmark message looks like, and the check that it arrived unharmed
wire      one raw STOMP connection of the load generator
workers   the producer, consumer and round trip loops, each run in a process of its own
load      one measurement: starts workers, times them, verifies what they saw
floor     the barest broker that still keeps the promise: the limit to close in on
targets   starting and stopping the brokers under test, each on a fresh data directory
report    medians, ratios and the table
run       the command line
fold      reading and folding history, by itself
index     how fast the index follows the journal, by itself
"""
