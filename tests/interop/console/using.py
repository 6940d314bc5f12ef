"""What tests of the console do over and over."""

import fcntl
import os
import signal
from contextlib import ExitStack
from pathlib import Path

from daybook.journal.data_directory import JOURNAL, LOCK
from tests.support import nursery
from tests.support.histories import some_history, write_history
from tests.support.process import DAYBOOK, BrokerProcess


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
