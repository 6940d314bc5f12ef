"""The outbox: nothing leaves before its gate, everything leaves when it may, order is kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.server.hub.outbox import Generation, Outbox


class Outlet:
    """A peer that remembers what it was given, and what was durable then."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.generation: Generation | None = None
        self.waiting_bytes = 0
        self.left: list[tuple[bytes, int]] = []

    def release(self, data: bytes) -> None:
        self.left.append((data, self.outbox.durable_lsn))

    @property
    def text(self) -> bytes:
        return b"".join(data for data, _ in self.left)


STEPS = st.lists(
    st.one_of(
        # A peer says something about an event, counted back from the newest; None: about nothing.
        st.tuples(st.just("put"), st.integers(0, 2), st.none() | st.integers(0, 6)),
        st.tuples(st.just("call"), st.none() | st.integers(0, 6)),
        st.tuples(st.just("decide"), st.integers(1, 3)),
        st.just(("close",)),
        st.tuples(st.just("durable"), st.integers(1, 2)),
    ),
    max_size=60,
)


class Run:
    """An outbox, and what must be true of it."""

    def __init__(self) -> None:
        self.outbox = Outbox(0)
        self.outlets = [Outlet(self.outbox) for _ in range(3)]
        self.decided = 0
        self.blocks: list[int] = []
        self.said: list[list[tuple[bytes, int]]] = [[], [], []]
        self.called: list[tuple[int, int]] = []
        self.calls = 0

    def put(self, who: int, back: int | None) -> None:
        gate = 0 if back is None else max(0, self.decided - back)
        piece = b"<%d>" % len(self.said[who])
        self.said[who].append((piece, gate))
        self.outbox.put(self.outlets[who], [piece[:1], piece[1:]], gate)

    def call(self, back: int | None) -> None:
        gate = 0 if back is None else max(0, self.decided - back)
        self.calls += 1
        self.outbox.call(lambda: self.called.append((gate, self.outbox.durable_lsn)), gate)

    def decide(self, count: int) -> None:
        self.decided += count

    def close(self) -> None:
        if self.decided > self.outbox.closed_lsn:
            self.outbox.close(self.decided)
            self.blocks.append(self.decided)

    def durable(self, count: int) -> None:
        done, self.blocks = self.blocks[:count], self.blocks[count:]
        if done:
            written = self.outbox.durable(done[-1])
            assert {id(outlet) for outlet in written} <= {id(outlet) for outlet in self.outlets}

    def check(self) -> None:
        durable = self.outbox.durable_lsn
        assert self.outbox.blocks_in_flight == len(self.blocks)
        for said, outlet in zip(self.said, self.outlets, strict=True):
            everything = b"".join(piece for piece, _ in said)
            assert everything.startswith(outlet.text), "order"
            assert outlet.waiting_bytes == len(everything) - len(outlet.text)
            left = len(outlet.text)
            for piece, gate in said:
                if left <= 0:
                    # The oldest that waits is one that must: nothing waits for nothing.
                    assert gate > durable
                    break
                left -= len(piece)
                assert gate <= durable, "left before its gate"
        assert all(gate <= then for gate, then in self.called)


@given(STEPS)
def test_the_outbox_keeps_its_promises(steps: list[tuple[str, ...]]) -> None:
    run = Run()
    for name, *arguments in steps:
        getattr(run, name)(*arguments)
        run.check()
    run.close()
    run.durable(len(run.blocks))
    run.check()
    assert all(outlet.waiting_bytes == 0 for outlet in run.outlets)
    assert all(outlet.generation is None for outlet in run.outlets)
    assert len(run.called) == run.calls


def test_what_waits_for_nothing_leaves_at_once() -> None:
    outbox = Outbox(7)
    outlet = Outlet(outbox)
    outbox.put(outlet, [b"a", b"b"], 0)
    outbox.put(outlet, [b"c"], 7)
    assert [data for data, _ in outlet.left] == [b"ab", b"c"]


def test_a_block_cannot_be_durable_before_it_is_closed() -> None:
    outbox = Outbox(0)
    with pytest.raises(AssertionError):
        outbox.durable(1)
    outbox.close(1)
    with pytest.raises(AssertionError):
        outbox.close(1)
