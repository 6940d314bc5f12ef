"""The pipeline on Spark: the only package that imports PySpark.

Modules:

- `datasource`: `spark.read.format("journal")`: history for Spark, one task for each split of a
  plan.
- `engine`: The engine on Spark: history from the data source `journal`, queries translated by
  sqlglot.
- `failures`: Translates Spark's errors into one sentence: that of our own code in a worker, or
  Spark's first.
- `interrupts`: Handles Ctrl-C while Spark runs a query: cancels its jobs and raises
  KeyboardInterrupt.
- `options`: Parses and checks the options of `format("journal")`, which Spark passes as texts.
- `session`: Spark sessions with Daybook's data sources and the settings that they need.
- `sink`: `format("daybook")` for writing: rows become messages in a broker, each exactly once.
- `streaming`: `spark.readStream.format("journal")`: history as it grows, each event in one batch.
"""
