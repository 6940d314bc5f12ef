"""The workers count what they say they count: brokers that lie are found out."""

import multiprocessing
import random
import socket
import threading
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from bench.load.frames import LoadError, make_body
from bench.load.wire import Endpoint
from bench.load.workers import Outcome, Tally, Task, check_exactly_once, consume, produce

Answer = Callable[[socket.socket], None]


@contextmanager
def broker(answer: Answer) -> Iterator[Endpoint]:
    """Serve one connection: CONNECTED, and then whatever `answer` does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"CONNECTED\nversion:1.2\n\n\0")
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Endpoint(listener.getsockname()[1], "guest", "guest", "/", "credit")
        finally:
            thread.join()


def wait_for_close(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


def task(endpoint: Endpoint, count: int = 10, stall_s: float = 20.0) -> Task:
    return Task(
        endpoint=endpoint,
        destination="/queue/a",
        label="worker",
        seed=1,
        body_bytes=256,
        stall_s=stall_s,
        window=4,
        prefetch=4,
        count=count,
    )


def receipts(numbers: list[int]) -> Answer:
    """Answer every SEND that arrives with the next of `numbers`."""

    def answer(connection: socket.socket) -> None:
        left = list(numbers)
        while data := connection.recv(65536):
            for _ in range(data.count(b"\0")):
                if left:
                    connection.sendall(b"RECEIPT\nreceipt-id:%08d\n\n\0" % left.pop(0))

    return answer


def run_producer(answer: Answer, stall_s: float = 20.0) -> Outcome:
    meetings: list[None] = []
    with broker(answer) as endpoint:
        outcome = produce(task(endpoint, stall_s=stall_s), lambda: meetings.append(None))
    assert len(meetings) == 2
    return outcome


def test_a_producer_is_done_when_every_receipt_has_come() -> None:
    outcome = run_producer(receipts(list(range(10))))
    assert outcome.count == 10
    assert outcome.started < outcome.ended


def test_a_producer_keeps_its_window() -> None:
    most: list[int] = []

    def answer(connection: socket.socket) -> None:
        received = answered = 0
        while data := connection.recv(65536):
            received += data.count(b"\0")
            most.append(received - answered)
            # Answer one at a time, so that a producer without a window would be seen.
            connection.sendall(b"RECEIPT\nreceipt-id:%08d\n\n\0" % answered)
            answered += 1
            if answered == 7:
                for number in range(7, 10):
                    connection.sendall(b"RECEIPT\nreceipt-id:%08d\n\n\0" % number)

    run_producer(answer)
    assert max(most) <= 4


def test_a_receipt_that_comes_twice_instead_of_another_is_found() -> None:
    with pytest.raises(LoadError, match="1 never came, 1 came more than once"):
        run_producer(receipts([0, 1, 2, 3, 4, 5, 6, 7, 8, 8]))


def test_a_stall_says_what_was_waited_for() -> None:
    with pytest.raises(LoadError, match=r"waiting for 10 of 10 receipts \(4 frames sent\)"):
        run_producer(wait_for_close, stall_s=1.0)


def test_a_closed_connection_and_an_error_frame_are_reported() -> None:
    with pytest.raises(LoadError, match="closed the connection while 10 of 10 receipts"):
        run_producer(lambda connection: connection.shutdown(socket.SHUT_WR))

    def refuse(connection: socket.socket) -> None:
        connection.sendall(b"ERROR\nmessage:queue is full\n\n\0")
        wait_for_close(connection)

    with pytest.raises(LoadError, match="queue is full"):
        run_producer(refuse)


def bodies(numbers: list[int]) -> list[bytes]:
    source = random.Random(1)
    made = [make_body(0, number, 256, source) for number in range(10)]
    return [made[number] for number in numbers]


def run_consumer(sent: list[bytes], expected: int) -> tuple[Outcome, list[bytes]]:
    """Deliver `sent` in one go; return the outcome and the ACK frames that came back."""
    acks: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        for number, body in enumerate(sent):
            connection.sendall(
                b"MESSAGE\nsubscription:0\nack:T\\c%d\nmessage-id:%d\n\n%b\0"
                % (number, number, body)
            )
        received = b""
        while b"DISCONNECT" not in received:
            received += connection.recv(65536)
        connection.sendall(b"RECEIPT\nreceipt-id:bye\n\n\0")
        acks.extend(received.split(b"\0")[:-2])
        wait_for_close(connection)

    tally = Tally(multiprocessing.get_context("fork").Value("q", expected))
    with closing(tally), broker(answer) as endpoint:
        return consume(task(endpoint), lambda: None, tally), acks


def test_a_consumer_acknowledges_each_message_by_its_own_id() -> None:
    outcome, acks = run_consumer(bodies(list(range(10))), 10)
    assert acks == [b"ACK\nid:T\\c%d\n\n" % number for number in range(10)]
    check_exactly_once([outcome], {0: 10})


def test_messages_out_of_order_are_found() -> None:
    with pytest.raises(LoadError, match="message 4 of producer 0 arrived after 5"):
        run_consumer(bodies([0, 1, 2, 3, 5, 4, 6, 7, 8, 9]), 10)


def test_a_harmed_body_is_found() -> None:
    harmed = bodies(list(range(10)))
    harmed[6] = harmed[6][:-5] + b"xyz" + harmed[6][-2:]
    with pytest.raises(LoadError, match="00-00000006"):
        run_consumer(harmed, 10)


def keys(*pairs: tuple[int, int]) -> Outcome:
    packed = array("Q", [producer << 32 | sequence for producer, sequence in pairs])
    return Outcome(0.0, 1.0, 0.0, len(pairs), keys=packed.tobytes())


def test_exactly_once_holds_over_all_consumers_together() -> None:
    check_exactly_once([keys((0, 0), (1, 1)), keys((1, 0), (0, 1))], {0: 2, 1: 2})


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([keys((0, 0))], "1 never arrived and 0 arrived more than once"),
        ([keys((0, 0), (0, 1)), keys((0, 1))], "0 never arrived and 1 arrived more than once"),
        ([keys((0, 0), (0, 1), (0, 2))], "message 2 of producer 0 was never sent"),
        ([keys((0, 0), (0, 1), (1, 0))], "message 0 of producer 1 was never sent"),
    ],
)
def test_lost_doubled_and_invented_messages_are_found(outcomes: list[Outcome], said: str) -> None:
    with pytest.raises(LoadError, match=said):
        check_exactly_once(outcomes, {0: 2})
