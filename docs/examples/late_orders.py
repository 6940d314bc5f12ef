"""Which orders waited longest, without Spark: `python docs/examples/late_orders.py DATA`.

Loads deliveries and acknowledgements of a queue and asks DuckDB.
"""

import sys

from daybook.pipeline.duck import DuckEngine
from daybook.pipeline.engines import History
from daybook.pipeline.planning import Source
from daybook.pipeline.selection import Selection

LATE = """
    SELECT message, delivered, acknowledged, date_diff('millisecond', delivered, acknowledged) AS ms
    FROM (
        SELECT message,
               min(time) FILTER (WHERE kind = 'Delivered') AS delivered,
               max(time) FILTER (WHERE kind = 'Acknowledged') AS acknowledged
        FROM events GROUP BY message
    )
    WHERE acknowledged IS NOT NULL
    ORDER BY ms DESC, message
    LIMIT 5
"""


def main(data: str, queue: str) -> None:
    """Print the five orders of a queue that took longest from first delivery to the end."""
    history = History(Source(data))
    asked = Selection(kinds=("Delivered", "Acknowledged"), queues=(queue,))
    with DuckEngine() as engine:
        engine.load("events", history, ("kind", "message", "time"), asked)
        for row in engine.ask(LATE).to_pylist():
            print(f"message {row['message']:>8} {row['ms']:>8} ms")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python docs/examples/late_orders.py DATA [QUEUE]")
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "orders")
