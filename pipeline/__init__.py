"""The pipeline: history as Arrow batches, for DuckDB on one machine and Spark on many (ADR 14).

Modules:

- `ahead`: Runs a function over items in several threads, and yields the results in order.
- `arrays`: Columns of `events` as Arrow arrays, made of the selected rows of several blocks.
- `channels`: Connections of the publisher: a transaction of messages over STOMP, or over AMQP 1.0.
- `decoding`: The decoder: turns the splits of a plan into Arrow record batches.
- `delta`: A Parquet archive as a Delta table: the same files, with Delta's log beside them.
- `duck`: The embedded engine: DuckDB in this process, over the decoder's batches and Parquet files.
- `engines`: The interface of the engines that run a job's SQL: DuckDB in this process, or Spark
  (ADR 14).
- `header_maps`: Headers of many messages as one Arrow map array.
- `holding`: Protects segments while Spark reads them: a lease that one process takes and others
  renew.
- `jobs`: Jobs over history; each is a function of an engine, and a command of `daybook pipeline`.
- `naming`: Names of addresses and queues as arrays, to turn a column of ids into a column of names.
- `parquet`: History as Parquet files.
- `planning`: Plans a scan: which byte ranges of which segments to read, and the names of that
  history.
- `proof`: Proofs: prove the hash chain of a segment that was converted to Parquet.
- `proving`: Proves a Parquet archive: checks chain, files and rows against the proofs, and restores
  segments.
- `publishing`: Publishes into a broker exactly once, with transactions that can be retried.
- `reading`: Reads history in this process, protected from retention.
- `rows`: Rows of a table of events as the events that the library of history takes (ADR 92).
- `schema`: The columns of `events` for SQL, derived from the table in `engine.facts.events`.
- `selection`: Selections of events, and how to write them as options.
- `spark`: The pipeline on Spark: the only package that imports PySpark.
- `sql`: SQL queries over history in this process.
- `typed_headers`: The derived columns: what headers say, with types, for readers of the journal and
  of Parquet.
- `views`: The views over `events`: the fate of entries, messages, deliveries and queues, in SQL
  (ADR 14).
"""
