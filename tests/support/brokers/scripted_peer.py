"""A peer on a socket that gives prepared answers, as no broker would."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from daybook.client.endpoint import STOMP, Endpoint


@contextmanager
def peer(
    *answers: bytes, then: Callable[[socket.socket], None] | None = None, protocol: str = STOMP
) -> Iterator[Endpoint]:
    """A peer that reads a little before it gives each answer, then does `then`."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            for answer in answers:
                connection.recv(1 << 16)
                connection.sendall(answer)
            if then is not None:
                then(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield Endpoint("127.0.0.1", listener.getsockname()[1], "guest", "guest", protocol=protocol)
    finally:
        thread.join()
        listener.close()
