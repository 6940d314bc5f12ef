"""What benchmarks print, and the options that they share.

It must never know how a number came about. Begin with `report`.

Modules:

- `options`: Options of several benchmarks, and types of options: lists of names and of numbers.
- `report`: The summary of measurements: medians, spreads, ratios, and the machine they were taken
  on.
- `tables`: The tables of the benchmark, in Markdown so that they can be pasted into a page as they
  are.
"""
