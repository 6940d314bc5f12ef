"""Measuring Daybook against a floor and against its peers.

frames      what a benchmark message looks like, and the check that it arrived unharmed
wire        one raw STOMP connection of the load generator
workers     the producer, consumer and round trip loops, each run in a process of its own
load        one measurement: starts workers, times them, verifies what they saw
floor       the barest broker that still keeps the promise: the limit to close in on
neighbours  processes that spin beside a broker while it is measured
targets     the brokers under test by name; starts the floor and Daybook
peers       starts RabbitMQ and ActiveMQ as Debian packages them
artemis     starts Artemis as `artemis create` sets it up
running     a broker under test that was started: its endpoint, its processes, and its end
report      medians, ratios, and the machine
tables      the report as Markdown
run         the command line
fold        reading and folding history, by itself
index       how fast the index follows the journal, by itself
"""
