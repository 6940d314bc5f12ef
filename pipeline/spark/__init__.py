"""Everything that knows Spark.

Modules:

- `datasource`: `spark.read.format("journal")`: history for Spark, one task for each split of a
  plan.
- `engine`: The engine on Spark: history by the data source `journal`, questions translated by
  sqlglot.
- `failures`: What Spark throws, as a sentence: what our own code said in a worker, else Spark's
  first words.
- `interrupts`: Ctrl-C while Spark works: its jobs are cancelled, and the question ends as
  KeyboardInterrupt.
- `options`: Options of `format("journal")`: what Spark hands over as text, checked and with a
  meaning.
- `session`: Spark sessions that know Daybook's sources, set up as these need it.
- `sink`: `format("daybook")` for writing: rows become messages in a broker, each exactly once.
- `streaming`: `spark.readStream.format("journal")`: history as it grows, each event in one batch.
"""
