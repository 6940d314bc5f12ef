"""Rejected messages as they happen: `python docs/examples/spark_stream.py DATA URL CHECKPOINT`.

Follows the journal and publishes a line for each time that a consumer rejected a message, at the
address `alerts`, each exactly once: kill it or the broker at any moment and start it again. It ends
when it has seen everything that was there when it began; without `.trigger` it goes on for ever.
"""

import sys

from pyspark.sql import functions as f

from daybook.pipeline.spark.session import session


def main(data: str, url: str, checkpoint: str) -> None:
    """Stream from the journal into a queue."""
    spark = session()
    events = (
        spark.readStream.format("journal")
        .option("columns", "lsn,reason,queue,message,delivery_count")
        .option("kinds", "Returned")
        .load(data)
    )
    alerts = events.where("reason = 'nack'").select(
        "lsn",
        f.format_string(
            "message %s was rejected in %s, delivery %s",
            "message", "queue", "delivery_count",
        ).alias("body"),
    )  # fmt: skip
    query = (
        alerts.writeStream.format("daybook")
        .option("url", url)
        .option("address", "alerts")
        .option("id", "rejection-alerts")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.lastProgress
    print(f"batch {progress['batchId'] if progress else 0} was the last")
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit("usage: python docs/examples/spark_stream.py DATA URL CHECKPOINT")
    main(*sys.argv[1:4])
