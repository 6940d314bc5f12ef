"""The pipeline: history as Arrow batches, for DuckDB on one machine and Spark on many (ADR 14)."""
