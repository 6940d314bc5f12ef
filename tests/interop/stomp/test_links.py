"""A made-up protocol of links over real sockets, which proves the ports (ADR 98)."""

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from daybook.engine.facts.settlements import FAILED, REJECTED, RELEASED
from daybook.engine.facts.values import Symbol, Timestamp, Uuid
from daybook.engine.messages.annotations import BYTES_MAX, COUNT_MAX
from daybook.engine.messages.conversions import CONVERSIONS, text_of
from daybook.engine.messages.headers import escape
from tests.interop.security.test_logins import add_user
from tests.interop.using import queues, reload
from tests.interop.wire import Wire
from tests.support import nursery
from tests.support.brokers.certificates import Authority
from tests.support.links.client import WINDOW, LinksBroker, LinksClient, opened
from tests.support.links.outgoing import PIECE_BYTES
from tests.support.process import JOURNAL, wait_for
from tests.support.worlds.second_format import pack, unpack

pytestmark = pytest.mark.interop

Connect: TypeAlias = Callable[..., LinksClient]

CONFIG = """
[broker]
address-queue-scan-period = 20

[[address-setting]]
match = "full.#"
max-size-messages = 1
address-full-policy = "BLOCK"

[[address-setting]]
match = "work.#"
max-delivery-attempts = 2
dead-letter-address = "dead.here"

[[address-setting]]
match = "paged.#"
max-size-bytes = 20000
address-full-policy = "PAGE"
"""
STOMP_TEST = "test_stomp_and_links_read_each_other"
LARGE = bytes(range(256)) * 1024


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinksBroker]:
    with LinksBroker(tmp_path_factory.mktemp("links") / "data", config=CONFIG) as process:
        process.start()
        yield process


def asked(command: str, broker: LinksBroker, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Ask the history of a broker."""
    words = [JOURNAL, command, "--data", str(broker.data), *arguments]
    return nursery.run(words, capture_output=True, text=True)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LinksBroker]:
    """A broker of its own, to be killed."""
    with LinksBroker(tmp_path / "data", config=CONFIG) as process:
        process.start()
        yield process


@pytest.fixture
def connect(shared: LinksBroker, request: pytest.FixtureRequest) -> Connect:
    """Opens connections to the shared broker; addresses are those of the test alone."""

    def connect(window: int = WINDOW) -> LinksClient:
        return opened(shared, request.node.name, window=window)

    return connect


def test_logging_in_and_opening_are_two_steps(shared: LinksBroker) -> None:
    with LinksClient(shared.port) as client:
        client.say("hello")
        assert client.expect("mechanisms") == [["PLAIN", "ANONYMOUS"], []]
        assert client.log_in() == "guest"
        # Nothing is open yet, so nothing else may come.
        assert client.open("container") > 0
    with LinksClient(shared.port) as client:
        client.log_in()
        client.say("attach", 1, "sender", "a")
        assert client.expect("closed") == ["attach before open"]


def test_a_wrong_login_and_an_unknown_host_are_refused(shared: LinksBroker) -> None:
    with LinksClient(shared.port) as client:
        client.say("init", "PLAIN", b"\0joe\0wrong")
        assert "wrong" in client.expect("closed")[0]
    with LinksClient(shared.port) as client:
        client.log_in()
        client.say("open", "c", "")
        assert "no virtual host is named so" in client.expect("closed")[0]


def test_a_user_who_has_not_opened_does_not_outlive_its_right(broker: LinksBroker) -> None:
    with LinksClient(broker.port) as waiting, opened(broker) as inside:
        add_user(broker, "joe", "secret")
        waiting.log_in()
        broker.send_signal(signal.SIGHUP)
        for client in (waiting, inside):
            assert "guest is not allowed any more" in client.expect("closed")[0]


def test_a_certificate_is_known_before_mechanisms_are_offered(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    certificate = authority.issue("localhost")
    shown = authority.issue("joe", name="client", cn="joe")
    config = f"""
[[acceptor]]
name = "secret"
protocol = "links"
listen = "127.0.0.1:0"
tls = true
certificate = "{certificate}"
client-certificates = "optional"
client-ca = "{authority.ca}"
certificate-login = "cn"
"""
    with LinksBroker(tmp_path / "data", config=config) as broker:
        broker.listen.clear()
        broker.start()
        with LinksClient(broker.port, authority.trusting(shown)) as client:
            client.say("hello")
            mechanisms, bindings = client.expect("mechanisms")
            assert mechanisms == ["EXTERNAL", "PLAIN", "ANONYMOUS"]
            assert "tls-server-end-point" in bindings
        with LinksClient(broker.port, authority.trusting()) as client:
            client.say("hello")
            assert client.expect("mechanisms")[0] == ["PLAIN", "ANONYMOUS"]


TYPED = {each.type.__name__: each.example for each in CONVERSIONS}
STANDARD = {
    "message_id": Uuid(bytes(range(16))),
    "correlation_id": b"\0\1",
    "user_id": b"joe",
    "group_sequence": 7,
    "content_encoding": "gzip",
    "type": "order",
}


def test_values_of_all_types_come_through(connect: Connect) -> None:
    with connect() as client:
        client.sender(1, "a")
        client.receiver(2, "a", 2)
        client.deliver(1, b"body", standard=STANDARD, **TYPED)
        _, body, head = client.take(2)
        assert (body, head["typed"]) == (b"body", False)
        assert head["properties"] == TYPED
        assert head["standard"] == STANDARD
        value = {"list": [1, Timestamp(5), None], "symbol": Symbol("x")}
        client.deliver(1, pack(value), typed=True)
        _, body, head = client.take(2)
        assert (unpack(body), head["typed"]) == (value, True)


def test_stomp_gets_what_the_table_of_conversions_says(
    connect: Connect, shared: LinksBroker, request: pytest.FixtureRequest
) -> None:
    with connect() as client, Wire(shared.ports[1]) as stomp:
        stomp.connect()
        client.sender(1, "a")
        client.deliver(1, pack("text in a value"), typed=True, standard=STANDARD, **TYPED)
        client.deliver(1, pack([1, "x"]), typed=True)
        stomp.send("SUBSCRIBE", id="1", destination=f"/queue/a.{request.node.name}")
        got = stomp.read()
        assert got.body == b"text in a value"
        for each in CONVERSIONS:
            said = escape(text_of(each.example).encode()).decode()
            assert got.headers[each.type.__name__] == said
        assert got.headers["sender-message-id"] == "00010203-0405-0607-0809-0a0b0c0d0e0f"
        assert got.headers["correlation-id"] == "0001"
        assert (got.headers["sender-user-id"], got.headers["JMSXGroupSeq"]) == ("joe", "7")
        assert stomp.read().body == b'[1,"x"]'


def test_a_filter_sees_types(connect: Connect) -> None:
    with connect() as client:
        client.sender(1, "a")
        client.receiver(2, "a", 9, filter="n > 5 AND moment > 4 AND symbol = 'x'")
        for number in (3, 7):
            client.deliver(1, b"%d" % number, n=number, moment=Timestamp(5), symbol=Symbol("x"))
        assert client.take(2)[1] == b"7"
        assert not client.has("transfer", 2)


def test_stomp_and_links_read_each_other(connect: Connect, shared: LinksBroker) -> None:
    with connect() as client, Wire(shared.ports[1]) as stomp:
        stomp.connect()
        client.sender(1, "a")
        client.deliver(1, b"from links", standard={"type": "t"}, n=5)
        stomp.send("SUBSCRIBE", id="1", destination=f"/queue/a.{STOMP_TEST}")
        got = stomp.read()
        assert (got.body, got.headers["n"], got.headers["type"]) == (b"from links", "5", "t")
        client.receiver(2, "b", 1)
        stomp.send("SEND", body=b"from stomp", destination=f"/queue/b.{STOMP_TEST}", color="red")
        _, body, head = client.take(2)
        assert (body, head["properties"]["color"]) == (b"from stomp", "red")


def test_credit_is_that_of_each_link(connect: Connect) -> None:
    with connect() as client:
        client.sender(1, "a")
        client.receiver(2, "a")
        client.receiver(3, "b", 9)
        client.sender(4, "b")
        for number in range(3):
            client.deliver(1, b"%d" % number)
        client.deliver(4, b"other")
        # A link without credit keeps nothing from another one.
        assert client.take(3)[1] == b"other"
        assert not client.has("transfer", 2)
        client.say("flow", 2, 2)
        assert [client.take(2)[1] for _ in range(2)] == [b"0", b"1"]
        assert not client.has("transfer", 2)
        # Credit is a count of all deliveries: said twice, it means the same.
        client.say("flow", 2, 2)
        assert not client.has("transfer", 2)
        client.say("flow", 2, 3)
        assert client.take(2)[1] == b"2"


def test_a_drain_is_answered_behind_what_there_is(connect: Connect) -> None:
    with connect(window=1) as client:
        client.sender(1, "a")
        client.receiver(2, "a")
        client.receiver(3, "b", 5)
        for number in range(2):
            client.deliver(1, b"%d" % number)
        client.say("flow", 2, 10, True)
        # The answer waits behind the deliveries, and those for the window.
        assert not client.has("drained", 2)
        client.say("window", 1)
        assert client.expect("drained", 2)[1:] == [8, 10]
        assert [client.take(2)[1] for _ in range(2)] == [b"0", b"1"]
        # No credit is left.
        client.deliver(1, b"2")
        client.say("window", 9)
        assert not client.has("transfer", 2)
        client.say("flow", 3, 5, True)
        assert client.expect("drained", 3)[1:] == [5, 5]


def test_a_full_address_stops_one_link_alone(connect: Connect) -> None:
    with connect() as client:
        client.sender(1, "full")
        client.sender(2, "free")
        client.receiver(3, "free", 9)
        client.deliver(1, b"first")
        client.send(1, b"second")
        assert not client.has("accepted", 1)
        # Sends and settlements of the same connection pass.
        client.deliver(2, b"passes")
        message, body, _ = client.take(3)
        assert body == b"passes"
        client.settle(3, message)
        assert not client.has("accepted", 1)
        client.receiver(4, "full", 1)
        message, body, _ = client.take(4)
        assert body == b"first"
        client.settle(4, message)
        client.expect("accepted", 1)
        client.say("flow", 4, 2)
        assert client.take(4)[1] == b"second"


def test_links_go_on_in_the_order_in_which_they_came(connect: Connect) -> None:
    with connect() as one, connect() as two:
        one.sender(1, "full")
        one.deliver(1, b"0")
        one.send(1, b"1")
        one.pass_through()
        two.sender(1, "full")
        two.sender(2, "full")
        two.send(1, b"gone")
        two.pass_through()
        two.send(2, b"2")
        two.pass_through()
        # The link that ends is waited for no more.
        two.say("detach", 1)
        two.expect("detached", 1)
        one.receiver(3, "full")
        order = []
        for _ in range(3):
            one.say("flow", 3, len(order) + 1)
            message, body, _ = one.take(3)
            order.append(body)
            one.settle(3, message)
        assert order == [b"0", b"1", b"2"]


def test_a_link_without_credit_may_not_send(connect: Connect) -> None:
    with connect() as client:
        client.sender(1, "full")
        client.sender(2, "free")
        for number in range(6):
            client.send(1, b"%d" % number)
        assert client.expect("detached", 1)[1:] == ["transfer-refused", "no credit"]
        client.deliver(2, b"the connection continues")


def test_a_large_body_is_framed_both_ways(connect: Connect) -> None:
    with connect() as client:
        client.sender(1, "a")
        client.deliver(1, LARGE, piece_bytes=50_000)
        client.receiver(2, "a", 1)
        sizes = []
        more = True
        body = b""
        while more:
            _, _, piece, more = client.expect("transfer", 2)[1:]
            sizes.append(len(piece))
            body += piece
    assert body == LARGE
    assert max(sizes) == PIECE_BYTES


def test_other_links_interleave_with_a_large_body(connect: Connect) -> None:
    with connect(window=3) as client:
        client.sender(1, "large")
        client.sender(2, "small")
        client.deliver(1, LARGE, piece_bytes=60_000)
        client.receiver(3, "large", 1)
        client.receiver(4, "small", 5)
        client.pass_through()
        for number in range(5):
            client.deliver(2, b"%d" % number)
        # The window is used up, by the body.
        assert not client.has("transfer", 4)
        client.say("window", 12)
        for number in range(5):
            assert client.take(4)[1] == b"%d" % number
        # Most of the body is still to come.
        assert sum(each[:2] == ["transfer", 3] for each in client.seen) < len(LARGE) // PIECE_BYTES
        client.say("window", 1000)
        assert client.take(3)[1] == LARGE


def test_a_window_is_never_exceeded(connect: Connect) -> None:
    with connect(window=0) as client:
        client.sender(1, "a")
        client.deliver(1, LARGE, piece_bytes=60_000)
        client.deliver(1, b"behind")
        client.receiver(2, "a", 2)
        body = b""
        while len(body) < len(LARGE):
            assert not client.has("transfer", 2)
            client.say("window", 1)
            piece = client.expect("transfer", 2)[3]
            body += piece
        assert body == LARGE
        client.say("window", 1)
        assert client.take(2)[1] == b"behind"


def test_a_large_body_waits_for_its_link_alone(connect: Connect) -> None:
    with connect() as client:
        client.sender(1, "full")
        client.sender(2, "free")
        client.deliver(1, b"first")
        client.send(1, LARGE, piece_bytes=60_000)
        client.deliver(2, b"passes")
        assert not client.has("accepted", 1)
        client.receiver(3, "full", 2)
        message, _, _ = client.take(3)
        client.settle(3, message)
        client.expect("accepted", 1)
        assert client.take(3)[1] == LARGE


def test_outcomes_count_or_do_not(connect: Connect, shared: LinksBroker) -> None:
    with connect() as client:
        client.sender(1, "work")
        client.receiver(2, "work", 9)
        client.deliver(1, b"x")
        seen = []
        for outcome in (RELEASED, FAILED, REJECTED):
            message, _, head = client.take(2)
            seen.append((head["count"], head["redelivered"]))
            client.settle(2, message, outcome)
        assert seen == [(1, False), (1, True), (2, True)]
    with opened(shared) as client:
        client.receiver(3, "dead", 1)
        assert client.take(3)[1] == b"x"


def test_a_message_that_is_not_for_a_link_goes_to_another_one(connect: Connect) -> None:
    with connect() as client:
        client.sender(1, "a")
        client.receiver(2, "a", 9)
        client.deliver(1, b"x")
        message, _, _ = client.take(2)
        client.settle(2, message, RELEASED, not_here=True)
        assert not client.has("transfer", 2)
        client.receiver(3, "a", 9)
        message, body, head = client.take(3)
        assert (body, head["count"]) == (b"x", 1)
        client.settle(3, message)
        # It holds for that message alone.
        client.say("detach", 3)
        client.expect("detached", 3)
        client.deliver(1, b"y")
        assert client.take(2)[1] == b"y"


def test_what_a_link_notes_on_a_message_comes_with_the_next_delivery(connect: Connect) -> None:
    noted = [[Symbol("x-why"), "broken"], [7, [Timestamp(5), {"a": b"\0"}]]]
    with connect() as client, connect() as other:
        client.sender(1, "a")
        client.receiver(2, "a", 9)
        client.deliver(1, b"x", n=1)
        message, _, head = client.take(2)
        assert head["annotations"] == []
        client.settle(2, message, FAILED, annotations=noted)
        message, body, head = client.take(2)
        assert (body, head["properties"], head["annotations"]) == (b"x", {"n": 1}, noted)
        client.settle(2, message, FAILED, annotations=[[7, None], [8, "more"]], not_here=True)
        other.receiver(1, "a", 1)
        assert other.take(1)[2]["annotations"] == [noted[0], [7, None], [8, "more"]]


def test_notes_without_end_are_refused_and_the_delivery_stays(connect: Connect) -> None:
    with connect() as client:
        client.sender(1, "a")
        client.receiver(2, "a", 9)
        client.receiver(3, "b", 9)
        client.deliver(1, b"x")
        message, _, _ = client.take(2)
        for many in ([[0, bytes(BYTES_MAX)]], [[n, n] for n in range(COUNT_MAX + 1)], [["x", 1]]):
            client.say("settle", 2, message, FAILED, {"annotations": many})
            code, text = client.expect("unsettled", 2, message)[2:]
            assert code == "limit"
            assert text.startswith(f"message {message} cannot keep these annotations: ")
        client.sender(4, "b")
        client.deliver(4, b"others are not disturbed")
        client.take(3)
        client.settle(2, message)


def test_the_end_of_a_queue_ends_its_link_alone(tmp_path: Path) -> None:
    delete = '[[address-setting]]\nmatch = "#"\nconfig-delete-queues = "FORCE"\n'
    listed = '[[queue]]\nname = "a.here"\naddress = "a.here"\n'
    with LinksBroker(tmp_path / "data", config=delete + listed) as broker:
        broker.start()
        with opened(broker) as client:
            client.sender(1, "free")
            client.receiver(2, "a", 9)
            client.receiver(3, "free", 9)
            reload(broker, delete)
            client.expect("detached", 2)
            client.deliver(1, b"the connection continues")
            assert client.take(3)[1] == b"the connection continues"


def test_what_a_link_says_of_a_failure_is_history(connect: Connect, shared: LinksBroker) -> None:
    with connect() as client:
        client.sender(1, "a")
        client.receiver(2, "a", 1)
        client.deliver(1, b"x")
        message, _, _ = client.take(2)
        client.settle(2, message, FAILED, condition="app:broken", error="no such product")
    command = [JOURNAL, "inspect", "--data", str(shared.data), "--message", str(message), "--json"]
    told = nursery.run(command, capture_output=True, check=True, text=True).stdout
    [returned] = [each for each in map(json.loads, told.splitlines()) if each["kind"] == "Returned"]
    assert returned["detail"]["error"] == "no such product"
    assert returned["detail"]["condition"] == "app:broken"


def test_a_clean_end_returns_deliveries(connect: Connect) -> None:
    with connect() as client, connect() as other:
        client.sender(1, "a")
        client.receiver(2, "a", 1)
        client.deliver(1, b"x")
        client.take(2)
        other.receiver(1, "a", 1)
        assert not other.has("transfer", 1)
        client.say("detach", 2)
        client.expect("detached", 2)
        assert other.take(1)[2]["count"] == 1


def test_what_was_accepted_survives_kill_9(broker: LinksBroker) -> None:
    with opened(broker) as client:
        client.sender(1, "a")
        client.receiver(2, "a", 1)
        for number in range(3):
            client.deliver(1, b"%d" % number, n=number)
        message, _, _ = client.take(2)
        client.settle(2, message)
        broker.kill()
    broker.start()
    with opened(broker) as client:
        client.receiver(2, "a", 9)
        found = [client.take(2) for _ in range(2)]
        assert [(body, head["properties"]) for _, body, head in found] == [
            (b"1", {"n": 1}),
            (b"2", {"n": 2}),
        ]
        assert not client.has("transfer", 2)


def test_what_was_noted_survives_kill_9_and_paging(broker: LinksBroker) -> None:
    """More than memory is to hold: what returned leaves it, and comes back with its notes."""
    with opened(broker) as client:
        client.sender(1, "paged")
        for number in range(60):
            client.deliver(1, b"%d" % number, fill="x" * 1000)
        client.receiver(2, "paged", 20)
        for message, body, _ in [client.take(2) for _ in range(20)]:
            client.settle(2, message, FAILED, annotations=[[Symbol("x"), body]])
        broker.kill()
    # The first start folds what the index does not have, the second one finds it there.
    broker.start()
    broker.stop()
    broker.start()
    with opened(broker) as client:
        client.receiver(2, "paged", 60)
        for number in range(60):
            _, body, head = client.take(2)
            expected = [[Symbol("x"), body]] if number < 20 else []
            assert (body, head["annotations"]) == (b"%d" % number, expected)
        broker.kill()
    broker.start()
    with opened(broker) as client:
        # They were in flight meanwhile.
        client.receiver(2, "paged", 60)
        assert client.take(2)[2]["annotations"] == [[Symbol("x"), b"0"]]
    told = asked("verify", broker)
    assert told.returncode == 0, told.stdout + told.stderr


def test_a_trail_and_sql_tell_what_was_noted(connect: Connect, shared: LinksBroker) -> None:
    with connect() as client:
        client.sender(1, "work")
        client.receiver(2, "work", 9)
        client.deliver(1, b"noted")
        message, _, _ = client.take(2)
        client.settle(2, message, FAILED, annotations=[[Symbol("x-why"), "no stock"]])
        client.take(2)
        client.settle(2, message, FAILED, annotations=[[Symbol("x-who"), Timestamp(5)]])
    with opened(shared) as client:
        client.receiver(3, "dead", 9)
        body = b""
        while body != b"noted":
            # Others may be dead letters of other tests.
            dead, body, head = client.take(3)
        noted = {Symbol("x-why"): "no stock", Symbol("x-who"): Timestamp(5)}
        assert head["annotations"] == [list(pair) for pair in noted.items()]
        client.settle(3, dead)
    told = asked("trail", shared, str(message)).stdout
    assert "annotations (x-why 'no stock')" in told
    assert "annotations (x-why 'no stock', x-who 5)" in told
    query = (
        "SELECT json_extract_string(detail, '$.annotations.x-why') AS why FROM events"
        f" WHERE kind = 'Routed' AND message = {dead}"
    )
    assert "no stock" in asked("sql", shared, query).stdout
    assert asked("audit", shared).returncode == 0


def test_a_large_body_that_was_under_way_at_kill_9_comes_again(broker: LinksBroker) -> None:
    with opened(broker, window=4) as client:
        client.sender(1, "a")
        client.deliver(1, LARGE, piece_bytes=60_000)
        client.receiver(2, "a", 1)
        for _ in range(4):
            client.expect("transfer", 2)
        broker.kill()
    broker.start()
    with opened(broker) as client:
        client.receiver(2, "a", 1)
        _, body, head = client.take(2)
        assert body == LARGE
        assert head["redelivered"]


def test_a_body_that_was_arriving_at_kill_9_is_no_message(broker: LinksBroker) -> None:
    with opened(broker) as client:
        client.sender(1, "a")
        client.say("transfer", 1, "t", {}, LARGE[:60_000], True)
        client.pass_through()
        broker.kill()
    broker.start()
    with opened(broker) as client:
        client.sender(1, "a")
        client.receiver(2, "a", 9)
        client.deliver(1, b"later")
        assert client.take(2)[1] == b"later"
        assert not client.has("transfer", 2)


NAMED: Final = {"topic": True, "named": "mine", "session": 1}


def test_a_subscription_outlives_its_link_until_its_session_ends(
    connect: Connect, shared: LinksBroker
) -> None:
    options = {**NAMED, "named": "sessions", "expires": "session-end"}
    with connect() as client:
        client.receiver(1, "news", **options)
        client.detach(1)
        client.sender(2, "news")
        client.deliver(2, b"meanwhile")
        client.receiver(3, "news", 9, **options)
        assert client.take(3)[1] == b"meanwhile"
        client.detach(3)
        assert "dsub.sessions" in queues(shared)
        client.say("end", 1)
        client.expect("ended", 1)
        assert "dsub.sessions" not in queues(shared)
        client.deliver(2, b"the connection continues")


def test_a_subscription_expires_after_its_connection_also_over_kill_9(broker: LinksBroker) -> None:
    options = {**NAMED, "expires": "connection-close", "after": 3_600_000}
    with opened(broker) as client:
        client.receiver(1, "news", **options)
        client.detach(1)
        client.sender(2, "news")
        client.deliver(2, b"kept")
        broker.kill()
    broker.start()
    with opened(broker) as client:
        client.receiver(1, "news", 9, **options)
        assert client.take(1)[1] == b"kept"
        # A time of a moment, from the end of the connection on.
        client.detach(1)
        client.receiver(1, "news", **{**options, "after": 1})
        client.detach(1)
        client.pass_through()
        assert "dsub.mine" in queues(broker)
    wait_for(lambda: "dsub.mine" not in queues(broker), "the subscription to expire")
    broker.kill()
    told = nursery.run(
        [JOURNAL, "inspect", "--data", str(broker.data), "--kind", "OwnerEnded"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "OwnerEnded" in told


def test_a_client_closes_a_subscription_for_good(broker: LinksBroker) -> None:
    with opened(broker) as client:
        client.receiver(1, "news", expires="never", **NAMED)
        client.detach(1)
        assert "dsub.mine" in queues(broker)
        client.receiver(1, "news", expires="never", **NAMED)
        client.detach(1, closes=True)
        assert "dsub.mine" not in queues(broker)


def test_a_dynamic_destination_ends_with_its_link(connect: Connect, shared: LinksBroker) -> None:
    with connect() as client, connect() as other:
        address = client.dynamic(1, "replies")
        client.say("attach", 2, "receiver", address, {})
        client.expect("attached", 2)
        client.say("flow", 2, 9)
        other.say("attach", 1, "sender", address)
        other.expect("attached", 1)
        other.deliver(1, b"answer")
        assert client.take(2)[1] == b"answer"
        client.detach(1)
        assert client.expect("detached", 2)[1] == "queue-removed"
        assert address not in queues(shared)
        client.sender(3, "elsewhere")
        client.deliver(3, b"the connection continues")


def test_what_is_no_frame_ends_its_connection_alone(connect: Connect) -> None:
    with connect() as client, connect() as other:
        client._socket.sendall(b"\x7f\xff\xff\xff")
        assert client.expect("closed") == ["a frame of 2147483647 bytes"]
        other.sender(1, "a")
        other.deliver(1, b"x")
