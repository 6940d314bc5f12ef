"""Links of one connection: whatever the windows, the disk and the transport do, each body arrives
whole and in the order of its link, and no window is exceeded."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.server.hub.peer import WRITE_HIGH_BYTES
from tests.support.links.outgoing import PIECE_BYTES
from tests.unit.server.hub.test_hub import Bench
from tests.unit.server.hub.test_links import Links

LINKS = (1, 2, 3)
CHUNK = 3 * PIECE_BYTES // 2

steps = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(LINKS), st.integers(0, 4)),
    st.tuples(st.just("window"), st.integers(1, 6), st.just(0)),
    st.tuples(st.sampled_from(("turn", "write", "stick", "drain")), st.just(0), st.just(0)),
)


class Exchange:
    """A sender and a receiver with three links each, and what was sent by each link."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.sender, self.receiver = Links(self.bench).connect(), Links(self.bench).connect(0)
        for link in LINKS:
            self.sender.say("attach", link, "sender", f"q{link}")
            self.receiver.say("attach", link, "receiver", f"q{link}")
            self.receiver.say("flow", link, 1_000)
        self.bench.run()
        self.receiver.heard()
        self.sent: dict[int, list[bytes]] = {link: [] for link in LINKS}
        self.got: dict[int, list[bytes]] = {link: [] for link in LINKS}
        self.partly: dict[int, bytes] = dict.fromkeys(LINKS, b"")
        self.window = 0

    def send(self, link: int, chunks: int) -> None:
        """Send a message of so many chunks; 0: a small one. A link without credit sends nothing."""
        incoming: Any = self.sender.session.links[link]
        if not incoming.credit:
            return
        number = len(self.sent[link])
        pieces = [bytes([number % 256, link]) * (CHUNK // 2)] * chunks or [b"small%d" % number]
        self.sent[link].append(b"".join(pieces))
        for place, piece in enumerate(pieces):
            self.sender.say("transfer", link, "t", {}, piece, place < len(pieces) - 1)

    def do(self, step: str, first: int, second: int) -> None:
        if step == "send":
            self.send(first, second)
        elif step == "window":
            self.window += first
            self.receiver.say("window", first)
        elif step == "turn":
            self.bench.turn()
        elif step == "write":
            self.bench.writer.write()
        elif step == "stick":
            self.receiver.transport.stuck = WRITE_HIGH_BYTES + 1
        else:
            self.drain()

    def drain(self) -> None:
        self.receiver.transport.stuck = 0
        self.bench.hub.drained(self.receiver.peer)

    def hear(self) -> None:
        """Take what the receiver got, frame by frame."""
        for name, link, *parts in self.receiver.heard():
            assert name == "transfer"
            _, head, piece, more = parts
            assert (head is not None) == (not self.partly[link])
            self.window -= 1
            assert self.window >= 0
            self.partly[link] += piece
            if not more:
                self.got[link].append(self.partly[link])
                self.partly[link] = b""


@settings(deadline=None)
@given(st.lists(steps, max_size=40))
def test_bodies_arrive_whole_in_order_and_within_windows(
    script: list[tuple[str, int, int]],
) -> None:
    exchange = Exchange()
    for step in script:
        exchange.do(*step)
        exchange.hear()
    exchange.drain()
    exchange.do("window", 10_000, 0)
    exchange.bench.run()
    exchange.hear()
    assert exchange.got == exchange.sent
    assert exchange.bench.hub.first_chunk() == 0
    assert exchange.receiver.session.unsent_bytes == 0
    assert not exchange.receiver.peer.pulls
