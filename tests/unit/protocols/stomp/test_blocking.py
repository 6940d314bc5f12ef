"""A session whose command is blocked: nothing behind it is done before it, and nothing is lost."""

import pytest

from daybook.engine.commands import Begin, Chunk, CloseConnection, Commit, Send, Settle
from daybook.engine.refusals import Code
from daybook.protocols.stomp.wire.options import StompOptions
from tests.unit.protocols.stomp.fakes import SECOND, Peer, connected, frame


def send_frame(body: bytes, receipt: str = "", extra: str = "") -> bytes:
    lines = "SEND\ndestination:/queue/q" + extra
    return frame(lines + (f"\nreceipt:{receipt}" if receipt else ""), body)


def block(peer: Peer, count: int = 1, kind: type = Send) -> None:
    for _ in range(count):
        peer.broker.refuse(kind, Code.BLOCKED, "full")


def bodies(peer: Peer) -> list[bytes]:
    """Bodies of the SENDs that were given to the broker, again and again if they were blocked."""
    return [command.body for command in peer.broker.of(Send) if isinstance(command, Send)]


def proceed(peer: Peer) -> bytes:
    peer.session.proceed(peer.now)
    return peer.taken()


@pytest.mark.parametrize("ttl", ["", "\nttl:1000"])
def test_what_comes_behind_a_blocked_frame_waits(ttl: str) -> None:
    peer = connected()
    block(peer, 2)
    answer = peer.send(
        send_frame(b"1", "r1", ttl) + send_frame(b"2", "r2") + frame("BEGIN\ntransaction:t")
    )
    assert (answer, peer.session.is_blocked) == (b"", True)
    assert set(bodies(peer)) == {b"1"}
    assert not peer.broker.of(Begin)
    peer.broker.refusals.clear()
    assert proceed(peer) == b"RECEIPT\nreceipt-id:r1\n\n\0RECEIPT\nreceipt-id:r2\n\n\0"
    assert not peer.session.is_blocked
    assert bodies(peer)[-2:] == [b"1", b"2"]
    assert len(peer.broker.of(Begin)) == 1


def test_what_was_before_it_is_done_once() -> None:
    peer = connected()
    peer.send(send_frame(b"0"))
    done = peer.broker.lsn
    block(peer, 2)
    peer.send(send_frame(b"1", "r") + b"SEND\ndestin")
    assert peer.session.is_blocked
    assert peer.broker.lsn == done
    assert b"receipt-id:r" in proceed(peer)
    peer.send(b"ation:/queue/q\n\n3\0")
    assert bodies(peer)[-2:] == [b"1", b"3"]


def test_it_may_be_blocked_again_and_input_goes_on_to_be_kept() -> None:
    peer = connected()
    block(peer, 2)
    peer.send(send_frame(b"1"))
    assert peer.send(send_frame(b"2")[:9]) == b""
    block(peer, 2)
    assert proceed(peer) == b""
    assert peer.session.is_blocked
    peer.send(send_frame(b"2", "r")[9:])
    proceed(peer)
    assert not peer.session.is_blocked
    assert bodies(peer)[-2:] == [b"1", b"2"]


def test_a_blocked_commit_is_given_again() -> None:
    peer = connected()
    peer.send(frame("BEGIN\ntransaction:t"))
    block(peer, kind=Commit)
    commit = frame("COMMIT\ntransaction:t\nreceipt:c")
    assert peer.send(commit + send_frame(b"behind")) == b""
    assert bodies(peer) == []
    assert proceed(peer).startswith(b"RECEIPT\nreceipt-id:c\n")
    assert bodies(peer) == [b"behind"]


def test_a_gathered_body_is_given_again_whole() -> None:
    peer = connected()
    body = bytes(range(1, 256)) * 200
    data = send_frame(body, "r", f"\ncontent-length:{len(body)}") + send_frame(b"behind")
    block(peer)
    for start in range(0, len(data), 1000):
        assert peer.send(data[start : start + 1000]) == b""
    assert peer.session.is_blocked
    assert b"receipt-id:r" in proceed(peer)
    assert bodies(peer)[1:] == [body, b"behind"]


@pytest.mark.parametrize("blocked_chunk", [0, 1, 2])
def test_the_chunks_of_a_large_body_go_on_where_they_were_blocked(blocked_chunk: int) -> None:
    peer = connected(options=StompOptions(min_large_message_size=1000))
    body = bytes(range(1, 251)) * 12
    data = send_frame(body, "r", f"\ncontent-length:{len(body)}")
    head_bytes = data.index(b"\n\n") + 2
    peer.send(data[: head_bytes + 1000 * blocked_chunk])
    block(peer, kind=Chunk)
    peer.send(data[head_bytes + 1000 * blocked_chunk :] + send_frame(b"behind"))
    assert peer.session.is_blocked
    block(peer)
    assert proceed(peer) == b""  # the message itself is blocked then
    assert peer.session.is_blocked
    assert b"receipt-id:r" in proceed(peer)
    given = [chunk for chunk in peer.broker.of(Chunk) if isinstance(chunk, Chunk)]
    del given[blocked_chunk]
    assert b"".join(chunk.body for chunk in given) == body
    *_, large, behind = (send for send in peer.broker.of(Send) if isinstance(send, Send))
    assert (len(large.chunks), large.body_bytes) == (3, len(body))
    assert behind.body == b"behind"


def test_a_blocked_peer_is_not_given_up_for_its_silence() -> None:
    peer = Peer()
    peer.connect(extra=b"heart-beat:1000,1000\n")
    block(peer, 2)
    peer.send(send_frame(b"1", "r"))
    peer.session.is_unheard = True
    said = b""
    for _ in range(100):
        peer.now += SECOND
        peer.session.tick(peer.now)
        assert peer.session.next_deadline > peer.now
        said += peer.taken()
    assert set(said) == {10}  # nothing but our own heart-beats
    peer.now += SECOND // 2
    assert b"receipt-id:r" in proceed(peer)
    peer.session.listen_again(peer.now)
    peer.now += SECOND
    peer.session.tick(peer.now)
    assert not peer.session.closing
    peer.now += 100 * SECOND
    peer.session.tick(peer.now)
    assert b"nothing was heard" in peer.taken()


def test_an_error_at_the_second_attempt_names_the_frame() -> None:
    peer = connected()
    block(peer, 2)
    peer.send(send_frame(b"1", "r1") + send_frame(b"2"))
    peer.broker.refuse(Send, Code.LIMIT, "now it fails")
    answer = proceed(peer)
    assert answer.startswith(b"ERROR")
    assert b"receipt-id:r1" in answer
    assert peer.session.closing
    assert set(bodies(peer)) == {b"1"}
    assert not peer.session.is_blocked


def test_the_end_of_a_blocked_session_drops_what_was_kept() -> None:
    peer = connected()
    block(peer, 2)
    peer.send(send_frame(b"1") + frame("ACK\nid:1-1"))
    peer.session.connection_lost(peer.now)
    assert len(peer.broker.of(CloseConnection)) == 1
    assert not peer.session.is_blocked
    assert proceed(peer) == b""
    assert not peer.broker.of(Settle)


def test_who_is_not_blocked_has_nothing_to_go_on_with() -> None:
    peer = connected()
    peer.send(send_frame(b"1")[:-1])
    assert proceed(peer) == b""
    assert bodies(peer) == []
