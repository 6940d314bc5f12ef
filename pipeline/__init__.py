"""The pipeline: history as Arrow batches, for DuckDB on one machine and Spark on many (ADR 14).

Modules:

- `ahead`: Working ahead of whoever takes the results: several works at once, their results in
  order.
- `arrays`: Columns of `events` as Arrow arrays, made of the selected rows of several blocks.
- `decoding`: The decoder: splits of a plan become Arrow record batches, for whoever reads them.
- `delta`: A Parquet archive as a Delta table: the same files, with Delta's log beside them.
- `duck`: The embedded engine: DuckDB in this process, over the decoder's batches and Parquet files.
- `engines`: What runs a job's SQL: DuckDB in this process, or Spark. One text, two engines (ADR
  14).
- `header_maps`: Headers of many messages as one Arrow map array.
- `holding`: Segments held in place while Spark reads them: a lease that one process takes and
  others renew.
- `jobs`: Jobs over history; each is a function of an engine, and a command of `daybook pipeline`.
- `naming`: Names of addresses and queues as arrays, so that a column of ids becomes one of names at
  once.
- `parquet`: History as Parquet files.
- `planning`: Planning a scan: which byte ranges of which segments, and what names mean there.
- `proof`: Proofs: what is kept of a segment that became Parquet, so that its hash chain can still
  be shown.
- `proving`: Proving a Parquet archive: chain, files and rows against the proofs, and segments made
  again.
- `publishing`: Publishing into a broker exactly once: transactions that can be repeated until they
  are there.
- `reading`: Reading history in this process, with what is being read held in place.
- `schema`: The columns of `events` as SQL has them, drawn from the table in `engine.events`.
- `selection`: What is asked for: which events, and how people write that in options.
- `spark`: Everything that knows Spark.
- `sql`: Answering SQL questions about history in this process.
- `views`: The views over `events`: what became of messages, deliveries and queues, as SQL text (ADR
  14).
"""
