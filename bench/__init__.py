"""Measuring Daybook against a floor and against its peers.

Each module here is a benchmark, run as `python -m bench.NAME --help`; `run` compares brokers. What
they share is in rooms: `load` sends and receives, `brokers` are what is measured, `engine` measures
parts of one alone, `attacks` are clients that keep a broker busy, `machine` is what else runs
there, `reports` are what they print.
"""
