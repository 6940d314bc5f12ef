"""A peer counts what is on its way out, and writes to nobody who is gone."""

from engine.broker import Broker
from engine.state import State
from protocols.stomp import Session, StompOptions
from server.peer import Peer


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def buffered(self) -> int:
        return 7

    def pause_reading(self) -> None:
        raise AssertionError("a peer decides nothing")

    def resume_reading(self) -> None:
        raise AssertionError("a peer decides nothing")

    def close(self, delay_ms: int) -> None:
        raise AssertionError("a peer decides nothing")


def test_output_is_what_waits_and_what_the_transport_holds() -> None:
    transport = Transport()
    session = Session(Broker(State()), StompOptions(), "peer", "server")
    peer = Peer(session, transport, "peer", "stomp", 1000)
    peer.waiting_bytes = 5
    assert peer.output_bytes() == 12
    assert peer.output_limit > peer.room
    peer.release(b"x")
    assert peer.released
    peer.closed = True
    peer.release(b"y")
    assert transport.written == [b"x"]
