"""What tests of the console do over and over."""

import fcntl
import math
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from daybook.journal.data_directory import JOURNAL, LOCK
from tests.interop.using import connected, publish, subscribed
from tests.support import nursery
from tests.support.histories import some_history, write_history
from tests.support.process import DAYBOOK, BrokerProcess

ERRORS: Final = {7: "price 13 is not allowed", 31: "warehouse: time-out", 53: "no such customer"}
"""One order in so many is refused by the consumer, with this error."""


def send(broker: BrokerProcess, destination: str, body: str | Path, *words: str) -> None:
    """Send a message as the user ada; its body is a text, or a file."""
    url = f"stomp://ada:ada@127.0.0.1:{broker.port}"
    content = ("--file", str(body)) if isinstance(body, Path) else (body,)
    done = nursery.run(
        [DAYBOOK, "send", destination, *content, "--url", url, *words],
        capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def segments(data: Path) -> list[Path]:
    """Return the segments of a data directory, in order."""
    return sorted((data / JOURNAL).glob("*.seg"))


def history_without_broker(path: Path) -> Path:
    """Write a data directory with several segments, as if a broker had run on it."""
    data = write_history(path / "data", some_history(1, 300), segment_bytes=8192)
    (data / LOCK).touch()
    assert len(segments(data)) > 3
    return data


def make_hang(cleaned: ExitStack, data: Path, number: int = 1) -> None:
    """Let readers hang for up to 45 s while they open a segment: this process has a lease on it,
    and does not give it back when the kernel asks for that."""
    place = segments(data)[number]
    content = place.read_bytes()
    # Another file: a process that has opened the old one keeps that.
    place.unlink()
    place.write_bytes(content)
    cleaned.callback(signal.signal, signal.SIGIO, signal.signal(signal.SIGIO, signal.SIG_IGN))
    held = os.open(place, os.O_RDONLY)
    cleaned.callback(os.close, held)
    fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)


@contextmanager
def trade(broker: BrokerProcess, orders: int = 12, **login: str) -> Iterator[None]:
    """Let so many orders come in a tenth of a second, in waves, and a consumer take most of them,
    until the end or a crash."""
    is_over = Event()
    seller, worker = (connected(broker, **login) for _ in range(2))

    def sell() -> None:
        number, begun = 0, time.monotonic()
        while not is_over.is_set():
            wave = 1 + 0.7 * math.sin((time.monotonic() - begun) / 9)
            for _ in range(round(orders * wave)):
                number += 1
                publish(seller, "/queue/orders.eu", b'{"boots": 2}', order=str(4000 + number))
            is_over.wait(0.1)

    def work() -> None:
        subscribed(worker, "/queue/orders.eu", ack="client-individual")
        count = 0
        while not is_over.is_set():
            message = worker.expect("MESSAGE")
            count += 1
            error = next((ERRORS[each] for each in ERRORS if count % each == 0), "")
            how = {"error": error} if error else {}
            worker.send("NACK" if error else "ACK", b"", id=message.headers["ack"], **how)

    def quietly(task: Any) -> None:
        try:
            task()
        except (OSError, AssertionError):
            # The broker is killed, or this is over.
            return

    threads = [Thread(target=quietly, args=(task,), daemon=True) for task in (sell, work)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        is_over.set()
        for wire in (seller, worker):
            with suppress(OSError):
                wire.socket.shutdown(socket.SHUT_RDWR)
        for each in threads:
            each.join()
        for wire in (seller, worker):
            wire.close()
