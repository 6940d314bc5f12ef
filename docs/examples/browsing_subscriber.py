"""A durable subscriber that keeps its place itself: browses a queue, and stores what it has read.

The last sequence number is stored in the same transaction as what was made of the message, so after
a crash of this program, of its database or of the broker it resumes behind exactly that message.

    python docs/examples/browsing_subscriber.py prices.db prices --port 61613
"""

import argparse
import sqlite3
import threading

import stomp
from stomp.utils import Frame

TABLES = """
CREATE TABLE IF NOT EXISTS message (seq INTEGER PRIMARY KEY, body TEXT NOT NULL);
"""


class Subscriber(stomp.ConnectionListener):
    """Stores every message of a queue once, in order."""

    def __init__(self, path: str) -> None:
        self.database = sqlite3.connect(path, check_same_thread=False)
        self.database.executescript(TABLES)
        self.ended = threading.Event()

    def next_number(self) -> int:
        """Return the first sequence number that is not stored yet; 0 if none is."""
        (last,) = self.database.execute("SELECT max(seq) FROM message").fetchone()
        return 0 if last is None else last + 1

    def on_message(self, frame: Frame) -> None:
        """Store a message together with its number."""
        with self.database:
            self.database.execute(
                "INSERT INTO message VALUES (?, ?)", (int(frame.headers["seq"]), frame.body)
            )
        print(frame.headers["seq"], frame.body, flush=True)

    def on_error(self, frame: Frame) -> None:
        """Show what the broker refuses."""
        print(frame.headers.get("message", "ERROR"), flush=True)

    def on_disconnected(self) -> None:
        """End with the connection."""
        self.ended.set()


def main() -> None:
    """Subscribe, and read until the connection ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database")
    parser.add_argument("queue")
    parser.add_argument("--port", type=int, default=61613)
    given = parser.parse_args()
    subscriber = Subscriber(given.database)
    connection = stomp.Connection12([("127.0.0.1", given.port)])
    connection.set_listener("subscriber", subscriber)
    connection.connect(wait=True)
    connection.subscribe(
        f"/queue/{given.queue}", "reader", ack="auto",
        headers={
            "browser": "true", "browser-end": "false", "include-seq": "seq",
            "from-seq": str(subscriber.next_number()),
        },
    )  # fmt: skip
    subscriber.ended.wait()


if __name__ == "__main__":
    main()
