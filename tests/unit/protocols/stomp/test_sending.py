"""SEND: its command to the broker, the headers that it keeps, and refusals."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.commands import Send
from daybook.engine.facts.events import GROUPED
from daybook.engine.facts.formats import LINES
from daybook.engine.refusals import Code
from daybook.protocols.stomp.sending import Planner, SendPlan, prepare
from daybook.protocols.stomp.wire.errors import StompError
from daybook.protocols.stomp.wire.frames import parse_head
from daybook.protocols.stomp.wire.options import StompOptions
from daybook.protocols.stomp.wire.versions import V10, V11, V12
from tests.unit.protocols.stomp.fakes import NOW, Peer, connected, frame


def sent(peer: Peer, head: str, body: bytes = b"") -> Send:
    peer.broker.commands.clear()
    output = peer.send(frame("SEND\n" + head, body))
    assert not peer.session.closing, output
    (command,) = peer.broker.commands
    assert isinstance(command, Send)
    return command


def refused(head: str, version: str = "1.2", options: StompOptions | None = None) -> str:
    peer = connected(version, options)
    output = peer.send(frame("SEND\nreceipt:r\n" + head, b"x"))
    assert peer.session.closing
    assert peer.broker.of(Send) == []
    assert b"\nreceipt-id:r\n" in output
    return output.decode()


def test_defaults() -> None:
    command = sent(connected(), "destination:/queue/a", b"hello")
    assert command == Send(1, "a", b"destination:/queue/a\n", b"hello", "anycast")
    assert (command.priority, command.persistent, command.expires) == (4, True, 0)
    assert command.transaction is None


def test_everything_given() -> None:
    command = sent(
        connected(),
        "destination:x::y\npersistent:false\npriority:9\nexpires:12345\ntransaction:t",
    )
    assert (command.address, command.queue, command.routing_type) == ("x", "y", None)
    assert (command.persistent, command.priority, command.expires) == (False, 9, 12345)
    assert command.transaction == "t"


def test_durable_subscription() -> None:
    command = sent(connected(), "destination:/dsub/mine")
    assert (command.address, command.queue) == ("", "dsub.mine")


def test_destination_type() -> None:
    command = sent(connected(), "destination:a\ndestination-type:MULTICAST")
    assert (command.address, command.routing_type) == ("a", "multicast")


def test_default_persistent_is_configured() -> None:
    peer = connected("1.2", StompOptions(default_persistent=False))
    assert not sent(peer, "destination:/queue/a").persistent
    assert sent(peer, "destination:/queue/a\npersistent:true").persistent


def test_headers_are_kept_in_order_without_those_for_the_broker() -> None:
    command = sent(
        connected(),
        "content-type:text/plain\nreceipt:1\ndestination:/queue/a\ntransaction:t\nb:2\na:1\nb:3\n"
        "message-id:7\nsubscription:s\nack:x\nredelivered:true\ndelivery-count:9\n"
        "heart-beat:0,0\npersistent:true\npriority:1\nexpires:99\ncontent-length:2\nreceipt:2",
        b"ok",
    )
    assert command.headers == (
        b"content-type:text/plain\ndestination:/queue/a\nb:2\na:1\nb:3\n"
        b"persistent:true\npriority:1\nexpires:99\ncontent-length:2\n"
    )


def test_the_first_of_repeated_headers_counts() -> None:
    peer = connected()
    head = (
        "destination:/queue/a\ndestination:/queue/b\npriority:1\npriority:2\nreceipt:x\nreceipt:y"
    )
    output = peer.send(frame("SEND\n" + head))
    assert output == b"RECEIPT\nreceipt-id:x\n\n\0"
    (command,) = peer.broker.of(Send)
    assert (command.address, command.priority) == ("a", 1)
    assert command.headers.count(b"destination:") == 2


def test_ttl_becomes_expires() -> None:
    command = sent(connected(), "destination:/queue/a\nttl:2000\nx:y")
    assert command.expires == NOW // 1000 + 2000
    assert command.headers == b"destination:/queue/a\nx:y\nexpires:%d\n" % command.expires


def test_ttl_is_counted_from_the_arrival_of_each_message() -> None:
    peer = connected()
    first = sent(peer, "destination:/queue/a\nttl:2000")
    peer.now += 5_000_000
    assert sent(peer, "destination:/queue/a\nttl:2000").expires == first.expires + 5000


def test_of_ttl_and_expires_the_earlier_counts() -> None:
    peer = connected()
    early = sent(peer, "destination:/queue/a\nttl:2000\nexpires:5")
    assert early.expires == 5
    assert early.headers == b"destination:/queue/a\nexpires:5\n"
    late = sent(peer, "destination:/queue/a\nttl:2000\nexpires:999999999999999")
    assert late.expires == NOW // 1000 + 2000


def test_a_delay_is_counted_from_the_arrival_of_each_message() -> None:
    peer = connected()
    for _ in range(2):
        command = sent(peer, "destination:/queue/a\nAMQ_SCHEDULED_DELAY:2000\nx:y")
        assert command.due == peer.now // 1000 + 2000
        time = b"_AMQ_SCHED_DELIVERY:%d\n" % command.due
        assert command.headers == b"destination:/queue/a\nx:y\n" + time
        peer.now += 5_000_000


@pytest.mark.parametrize(
    ("headers", "due"),
    [
        ("AMQ_SCHEDULED_TIME:7", 7),
        ("_AMQ_SCHED_DELIVERY:8", 8),
        ("AMQ_SCHEDULED_TIME:7\n_AMQ_SCHED_DELIVERY:8", 8),
        ("AMQ_SCHEDULED_TIME:7\nAMQ_SCHEDULED_DELAY:2000", 7),
        ("AMQ_SCHEDULED_TIME:0\nAMQ_SCHEDULED_DELAY:0", 0),
    ],
)
def test_times_of_delivery(headers: str, due: int) -> None:
    peer = connected()
    # The second one comes by the plan that is remembered.
    for _ in range(2):
        assert sent(peer, "destination:/queue/a\nown:1\n" + headers).due == due


@pytest.mark.parametrize("name", ["JMSXGroupID", "_AMQ_GROUP_ID", "message_group"])
def test_a_group_shows_in_the_flags_and_travels_with_the_message(name: str) -> None:
    peer = connected()
    # A group may have any name, and each message another one.
    for value in ("g", "false", "0", "g"):
        command = sent(peer, f"destination:/queue/a\nx:y\n{name}:{value}")
        assert command.format == GROUPED
        assert command.headers == f"destination:/queue/a\nx:y\n{name}:{value}\n".encode()
    assert sent(peer, "destination:/queue/a\nx:y").format == LINES


def test_zero_means_never() -> None:
    assert sent(connected(), "destination:/queue/a\nttl:0\nexpires:0").expires == 0


@pytest.mark.parametrize(
    ("head", "part"),
    [
        ("x:y", "SEND without destination"),
        ("destination:", "SEND with an empty destination"),
        ("destination:/queue/a\npriority:10", "priority is '10'"),
        ("destination:/queue/a\npriority:-1", "priority is '-1'"),
        ("destination:/queue/a\npriority:", "priority is ''"),
        ("destination:/queue/a\npriority:\u0663", "priority is"),
        ("destination:/queue/a\npersistent:yes", "persistent is 'yes'"),
        ("destination:/queue/a\nexpires:-1", "expires is '-1'"),
        ("destination:/queue/a\nexpires:1.5", "expires is '1.5'"),
        ("destination:/queue/a\nttl:soon", "ttl is 'soon'"),
        ("destination:/queue/a\nttl:" + "9" * 5000, "ttl is"),
        ("destination:/queue/a\ntransaction:", "SEND with an empty transaction"),
        ("destination:/queue/a\nretain:set", "only a topic remembers"),
        ("destination:/queue/a\n_AMQ_DUPL_ID:", "_AMQ_DUPL_ID is empty"),
        ("destination:/queue/a\nAMQ_SCHEDULED_DELAY:soon", "AMQ_SCHEDULED_DELAY is 'soon'"),
        ("destination:/queue/a\nAMQ_SCHEDULED_TIME:-1", "AMQ_SCHEDULED_TIME is '-1'"),
        ("destination:/queue/a\n_AMQ_SCHED_DELIVERY:", "_AMQ_SCHED_DELIVERY is ''"),
        ("destination:/queue/a\nx-delay:5", "scheduled delivery by this header is not supported"),
        ("destination:/queue/a\nreply-to:/temp-queue/", "names nothing"),
        ("destination:/queue/a.*", "wildcards are for SUBSCRIBE"),
        ("destination:/queue/a\ncontent-length:x", "content-length is 'x'"),
        ("destination:/queue/a\ncontent-length:-1", "content-length is '-1'"),
        ("destination:/queue/a\ncontent-length:" + "9" * 5000, "content-length is"),
        ("destination:/queue/a\ncontent-length:0", "no NUL after the 0 bytes"),
    ],
)
def test_refused(head: str, part: str) -> None:
    text = refused(head)
    assert part in text
    said, _, rest = text.partition("\nmessage:")[2].partition("\n")
    assert "; " in said, "what to do is not in the header that clients show"
    assert rest


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_a_duplicate_id_is_told_and_travels_with_the_message(version: str) -> None:
    peer = connected(version)
    for number in (1, 2):
        command = sent(peer, f"destination:/queue/a\n_AMQ_DUPL_ID:job-{number}\n_AMQ_DUPL_ID:x")
        assert command.duplicate_id == f"job-{number}"
        assert b"\n_AMQ_DUPL_ID:job-%d\n" % number in command.headers
    assert sent(peer, "destination:/queue/a").duplicate_id == ""


def test_a_duplicate_id_beside_what_is_not_plain() -> None:
    head = "destination:/queue/a\nttl:2000\nreceipt:not plain\n_AMQ_DUPL_ID:job"
    assert sent(connected(), head).duplicate_id == "job"


def test_escapes_in_a_duplicate_id_are_undone() -> None:
    head = "destination:/queue/a\n_AMQ_DUPL_ID:a\\cb\\n\u00fc"
    assert sent(connected(), head).duplicate_id == "a:b\n\u00fc"


def test_a_feature_turned_off_is_no_reason_to_refuse() -> None:
    assert sent(connected(), "destination:/queue/a\nretain:false").address == "a"


def test_a_send_without_any_header() -> None:
    peer = connected()
    assert b"SEND without destination" in peer.send(b"SEND\n\n\0")


def test_refusals_of_the_broker_become_errors() -> None:
    peer = connected()
    peer.broker.refuse(Send, Code.NOT_ALLOWED, "address 'a' takes no anycast messages")
    output = peer.send(frame("SEND\ndestination:/queue/a\nreceipt:r"))
    assert output.startswith(
        b"ERROR\nmessage:address 'a' takes no anycast messages\nreceipt-id:r\n"
    )
    assert b"Where: SEND destination:/queue/a" in output
    assert peer.session.closing


def test_receipts_wait_for_their_event_and_sends_without_receipt_for_nothing() -> None:
    peer = connected()
    peer.send(frame("SEND\ndestination:/queue/a"))
    assert peer.session.gate == 0
    peer.send(frame("SEND\ndestination:/queue/a\nreceipt:r"))
    assert peer.session.gate == peer.broker.lsn


def test_an_old_answer_does_not_lower_the_gate() -> None:
    peer = connected()
    peer.session.gate = 1000
    peer.send(frame("SEND\ndestination:/queue/a\nreceipt:r"))
    assert peer.session.gate == 1000


@pytest.mark.parametrize(
    "where", ["receipt:r1\ndestination:/queue/a", "destination:/queue/a\nreceipt:r1"]
)
def test_one_plan_serves_every_receipt(where: str) -> None:
    peer = connected()
    for number in range(3):
        head = where.replace("r1", f"r{number}")
        assert peer.send(frame("SEND\n" + head)) == f"RECEIPT\nreceipt-id:r{number}\n\n\0".encode()
    assert {each.headers for each in peer.broker.of(Send)} == {b"destination:/queue/a\n"}


def test_many_different_heads() -> None:
    """More plans than are remembered: remembering must not change the messages."""
    peer = connected()
    for number in range(1500):
        command = sent(peer, f"destination:/queue/a\nn:{number % 700}")
        assert command.headers == f"destination:/queue/a\nn:{number % 700}\n".encode()


@pytest.mark.parametrize(
    ("version", "line", "kept"),
    [
        ("1.0", b"a:x\\ny", b"a:x\\\\ny"),
        ("1.0", b"a:x\ry", b"a:x\\ry"),
        ("1.1", b"a:x\\n\\c\\\\", b"a:x\\n\\c\\\\"),
        ("1.1", b"a:x\ry", b"a:x\\ry"),
        ("1.2", b"a:x\\r\\n\\c\\\\", b"a:x\\r\\n\\c\\\\"),
        ("1.0", b"a:b:c", b"a:b\\cc"),
        ("1.2", b"a:b:c", b"a:b\\cc"),
        ("1.2", b"a: b ", b"a: b "),
    ],
)
def test_headers_are_kept_in_the_canonical_form(version: str, line: bytes, kept: bytes) -> None:
    peer = connected(version)
    peer.send(b"SEND\ndestination:/queue/a\n" + line + b"\n\n\0")
    (command,) = peer.broker.of(Send)
    assert command.headers == b"destination:/queue/a\n" + kept + b"\n"


def test_escapes_in_headers_for_the_broker_are_understood() -> None:
    assert sent(connected("1.1"), "destination:a\\c\\cq").queue == "q"
    assert sent(connected("1.0"), "destination:a::q").queue == "q"


NAMES = (
    "destination",
    "x",
    "priority",
    "expires",
    "ttl",
    "receipt2",
    "message-id",
    "ack",
    "persistent",
    "_AMQ_DUPL_ID",
)
VALUES = ("/queue/a", "1", "true", "a\\nb", "\u00fc", "", "a:b")


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=6),
    st.sampled_from((V10, V11, V12)),
)
def test_what_is_remembered_changes_nothing(lines: list[tuple[str, str]], version: int) -> None:
    options = StompOptions(max_headers=6)
    key = "\n".join(["SEND", "destination:a", *(":".join(line) for line in lines)]).encode()
    planner = Planner(version, options)
    for _ in range(2):
        assert outcome(lambda: planner.plan(key)) == outcome(
            lambda: prepare(parse_head(key, version, options), options, 0)
        )


def outcome(make: Callable[[], SendPlan]) -> object:
    """The plan field by field, or the error."""
    try:
        plan = make()
    except StompError as error:
        return error.what
    return (
        plan.address, plan.queue, plan.routing_type, plan.priority, plan.persistent, plan.ttl,
        plan.expires, plan.transaction, plan.length, plan.headers, plan.duplicate_id,
    )  # fmt: skip


@pytest.mark.parametrize("second", ["1", "2", "x"])
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_content_length_is_given_once(version: str, second: str) -> None:
    peer = connected(version)
    head = f"SEND\ndestination:/queue/a\ncontent-length:1\ncontent-length:{second}\n\n"
    output = peer.send(head.encode() + b"x\0")
    assert b"message:content-length is given more than once" in output
    assert peer.broker.of(Send) == []


def test_sends_are_the_same_wherever_what_came_is_cut() -> None:
    """Also right behind the part of a head that is like the one before it."""
    head = "SEND\ndestination:/queue/a\ncontent-length:2\nreceipt:"
    data = b"".join(f"{head}{number}\n\n{number:02}\0".encode() for number in range(3))
    for cut in range(len(data)):
        peer = connected()
        peer.broker.commands.clear()
        output = peer.send(data[:cut]) + peer.send(data[cut:])
        assert [command.body for command in peer.broker.of(Send)] == [b"00", b"01", b"02"]
        assert output.count(b"RECEIPT\n") == 3


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("others", ["", "\nx:a\\\\b", "\nx:\u00fc"])
def test_only_the_broker_says_who_sent_a_message(version: str, others: str) -> None:
    head = f"destination:/queue/a\n_AMQ_VALIDATED_USER:eve\n_AMQ_VALIDATED_USER:bob{others}"
    assert b"VALIDATED" not in sent(connected(version), head).headers
    peer = connected(version, StompOptions(populate_validated_user=True))
    for _ in range(2):
        headers = sent(peer, head).headers
        assert headers.count(b"VALIDATED") == 1
        assert headers.endswith(b"\n_AMQ_VALIDATED_USER:user\n")
    timed = sent(peer, head + "\nttl:1000").headers
    assert b"\n_AMQ_VALIDATED_USER:user\nexpires:" in timed


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("blank", [" ", "\t", "\u00a0", "\ufeff", "\u2003"])
@pytest.mark.parametrize("name", ["_AMQ_VALIDATED_USER", "JMSXUserID", "redelivered"])
def test_names_of_the_broker_with_blanks_are_removed_as_well(
    version: str, blank: str, name: str
) -> None:
    """Clients that trim names would take them for the broker's."""
    peer = connected(version, StompOptions())
    for written in (f"{name}{blank}", f"{blank}{name}", f"{blank}{name}{blank}"):
        for others in ("", "\nn:1", "\nn:2"):
            headers = sent(peer, f"destination:/queue/a{others}\n{written}:eve").headers
            assert b"eve" not in headers
            assert headers.count(b"\n") == 1 + bool(others)


def test_the_name_of_a_sender_is_escaped() -> None:
    planner = Planner(V12, StompOptions(populate_validated_user=True), 1, "a:b")
    assert planner.plan(b"SEND\ndestination:/queue/a").headers == (
        b"destination:/queue/a\n_AMQ_VALIDATED_USER:a\\cb\n"
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("by", b"by:alice\n"),
        ("by;separator=,", b"by:alice,admins,sales\n"),
        ("by;kind=*;separator=; ", b"by:alice; admins; sales\n"),
        ("by;kind=user;separator=,", b"by:alice\n"),
        ("by;kind=role", b"by:admins\n"),
        ("by;kind=role;separator=:", b"by:admins\\csales\n"),
    ],
)
def test_principals_of_the_sender_are_added(text: str, line: bytes) -> None:
    options = StompOptions(add_user_headers=(text,))
    planner = Planner(V12, options, 1, "alice", {"sales", "admins"})
    headers = planner.plan(b"SEND\ndestination:/queue/a\nby:mine").headers
    assert headers == b"destination:/queue/a\n" + line
    assert b"by" not in Planner(V12, options, 1, "").plan(b"SEND\ndestination:/queue/a").headers
