"""A session that is blocked now and then does and says the same as one that never is."""

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.commands import Chunk, Command, Commit, Send
from daybook.engine.refusals import Code, Refusal
from daybook.protocols.stomp.wire.options import StompOptions
from tests.unit.protocols.stomp.fakes import FakeBroker, Peer
from tests.unit.protocols.stomp.streams import (
    BROKEN,
    CONNECTS,
    FRAMES,
    LARGE_FRAMES,
    LARGE_OPTIONS,
    OPTIONS,
    cut,
)


class BlockingBroker(FakeBroker):
    """Blocks what needs room, each such command for as many turns as the next number says."""

    def __init__(self, turns: list[int]) -> None:
        super().__init__()
        self.turns = list(turns)
        self.left = self._next()

    def _next(self) -> int:
        return self.turns.pop(0) if self.turns else 0

    def handle(self, command: Command, now: int) -> int | Refusal:
        if isinstance(command, Send | Commit | Chunk):
            if self.left:
                return Refusal(Code.BLOCKED, "no room")
            self.left = self._next()
        return super().handle(command, now)


def converse(
    chunks: list[bytes], turns: list[int], options: StompOptions, *, eager: bool
) -> tuple[list[str], bytes, bool]:
    """Feed a session; what the broker was asked, what was said, and whether it ended.

    `eager`: every block is over before more is fed; else more comes while it is blocked.
    """
    broker = BlockingBroker(turns)
    peer = Peer(options, broker)
    output = []
    for position, chunk in enumerate(chunks):
        output.append(peer.send(chunk))
        if peer.session.login_request is not None:
            peer.log_in()
        while peer.session.is_blocked and (eager or position == len(chunks) - 1):
            broker.left -= 1
            peer.session.proceed(peer.now)
        output.append(peer.taken())
    commands = [
        repr(command) if not hasattr(command, "receiver") else command.subscription
        for command in broker.commands
    ]
    return commands, b"".join(output), peer.session.closing


streams = st.builds(
    lambda connect, parts: connect + b"".join(parts),
    st.sampled_from(CONNECTS),
    st.lists(st.sampled_from((*FRAMES, *LARGE_FRAMES)) | st.sampled_from(BROKEN), max_size=10),
)


@given(
    stream=streams,
    places=st.lists(st.integers(0, 1 << 20), max_size=12),
    turns=st.lists(st.integers(0, 2), max_size=20),
    eager=st.booleans(),
    options=st.sampled_from((OPTIONS, LARGE_OPTIONS)),
)
def test_being_blocked_changes_nothing_but_the_time(
    stream: bytes, places: list[int], turns: list[int], eager: bool, options: StompOptions
) -> None:
    chunks = cut(stream, places)
    assert converse(chunks, turns, options, eager=eager) == converse(
        [stream], [], options, eager=True
    )
