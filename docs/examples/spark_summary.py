"""A summary of every queue, put into a queue: `python docs/examples/spark_summary.py DATA URL`.

Spark reads the journal of a broker, which may be running, counts by queue and kind, and publishes
one message a queue at the address `summaries`, exactly once however often a task is repeated.
"""

import sys

from pyspark.sql import functions as f

from daybook.pipeline.spark.session import session


def main(data: str, url: str) -> None:
    """Count and publish."""
    spark = session()
    events = spark.read.format("journal").option("columns", "lsn,kind,queue").load(data)
    counts = (
        events.where(f.col("queue").isNotNull())
        .groupBy("queue")
        .pivot("kind", ["Routed", "Delivered", "Acknowledged", "Returned", "DeadLettered"])
        .count()
        .na.fill(0)
        .orderBy("queue")
    )
    counts.show(truncate=False)
    messages = counts.select(f.to_json(f.struct("*")).alias("body"))
    (
        messages.coalesce(1)
        .write.format("daybook")
        .mode("append")
        .option("url", url)
        .option("address", "summaries")
        .option("orderBy", "body")
        .save()
    )
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python docs/examples/spark_summary.py DATA URL")
    main(*sys.argv[1:3])
