"""Names of destinations: the meaning of each form, and refusals."""

import pytest

from daybook.engine.names.names import owner_of
from daybook.protocols.stomp.wire.destinations import resolve, with_own_names
from daybook.protocols.stomp.wire.errors import StompError
from daybook.protocols.stomp.wire.options import StompOptions

OPTIONS = StompOptions()


@pytest.mark.parametrize(
    ("destination", "hint", "address", "queue", "routing_type"),
    [
        ("/queue/a", None, "a", None, "anycast"),
        ("/queue/a/b.c", None, "a/b.c", None, "anycast"),
        ("/topic/a", None, "a", None, "multicast"),
        ("/topic/a", "MULTICAST", "a", None, "multicast"),
        ("a", None, "a", None, None),
        ("/a", None, "/a", None, None),
        ("a", "ANYCAST", "a", None, "anycast"),
        ("a", "multicast", "a", None, "multicast"),
        ("a::q", None, "a", "q", None),
        ("/queue/a::q", None, "a", "q", "anycast"),
        ("/topic/a::q", None, "a", "q", "multicast"),
        ("/queue/a:b", None, "a:b", None, "anycast"),
        ("/queue/größe äö", None, "größe äö", None, "anycast"),
        ("/queue/temporary", None, "temporary", None, "anycast"),
    ],
)
def test_forms(
    destination: str, hint: str | None, address: str, queue: str | None, routing_type: str | None
) -> None:
    target = resolve(destination, hint, OPTIONS, 23)
    assert (target.address, target.queue, target.routing_type) == (address, queue, routing_type)
    assert target.durable_id == ""


@pytest.mark.parametrize(
    ("destination", "address", "routing_type"),
    [
        ("a/x", "x", "anycast"),
        ("a/b/x", "x", "multicast"),
        ("/queue/x", "x", "anycast"),
        ("m://x/", "x", "multicast"),
        ("m://x", "x", "multicast"),
        ("m:///", "/", "multicast"),
        ("a/x/", "x/", "anycast"),
        ("b/x", "b/x", None),
    ],
)
def test_prefixes_of_an_acceptor(destination: str, address: str, routing_type: str | None) -> None:
    options = StompOptions(anycast_prefix=("a/",), multicast_prefix=("a/b/", "m://"))
    target = resolve(destination, None, options, 23)
    assert (target.address, target.routing_type) == (address, routing_type)


def test_durable_subscription_is_a_queue_without_address() -> None:
    target = resolve("/dsub/mine", None, OPTIONS, 23)
    assert (target.address, target.queue, target.routing_type) == ("", "dsub.mine", None)
    assert target.durable_id == "mine"


@pytest.mark.parametrize(
    ("destination", "hint", "part"),
    [
        ("/queue/", None, "names nothing"),
        ("/topic/", None, "names nothing"),
        ("/dsub/", None, "names nothing"),
        ("", None, "names nothing"),
        ("/queue/a\nb", None, "control characters"),
        ("/queue/a\x7f", None, "control characters"),
        ("/queue/a.*", None, "wildcards are for SUBSCRIBE"),
        ("/topic/a.**", None, "wildcards are for SUBSCRIBE"),
        ("/topic/a.#", None, "wildcards are for SUBSCRIBE"),
        ("/topic/a.*::q", None, "wildcards are for SUBSCRIBE"),
        ("/topic/a.{b}", None, "has wildcards"),
        ("/queue/a,/queue/b", None, "',' is reserved for wildcards and lists"),
        ("/temp-queue/", None, "names nothing"),
        ("/temp-queue/x::q", None, "it has one queue"),
        ("/temp-topic/temp.x", None, "its name begins with temp."),
        ("/temp-topic/x.*", None, "wildcards are for SUBSCRIBE"),
        ("/temp-queue/x", "MULTICAST", "destination-type says multicast"),
        ("/queue/a::", None, "ADDRESS::QUEUE"),
        ("/queue/::q", None, "ADDRESS::QUEUE"),
        ("a::b::c", None, "ADDRESS::QUEUE"),
        ("/queue/a", "MULTICAST", "destination-type says multicast"),
        ("a", "BROADCAST", "destination-type is 'BROADCAST'"),
        ("/queue/" + "x" * 5000, None, "5,000 bytes"),
        ("/queue/a::" + "ä" * 4096, None, "8,192 bytes"),
        ("/queue/ a", None, "begins or ends with a space"),
        ("/dsub/a*", None, "wildcards are for SUBSCRIBE"),
    ],
)
def test_refused(destination: str, hint: str | None, part: str) -> None:
    with pytest.raises(StompError) as caught:
        resolve(destination, hint, OPTIONS, 23)
    assert part in caught.value.what + caught.value.advice
    assert caught.value.advice


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_temporary_destinations_are_of_their_connection(kind: str) -> None:
    target = resolve(f"/temp-{kind}/a.b", None, OPTIONS, 23)
    assert (target.address, target.queue) == ("temp.default.23.a.b", None)
    assert target.routing_type == ("anycast" if kind == "queue" else "multicast")
    assert owner_of(target.address) == 23
    # Everybody else calls it so, and must mean the same.
    other = resolve(f"/{kind}/temp.default.23.a.b", None, OPTIONS, 24)
    assert (other.address, other.routing_type) == (target.address, target.routing_type)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("/temp-queue/b", "/queue/temp.default.23.b"),
        ("/queue/a,/temp-topic/b", "/queue/a,/topic/temp.default.23.b"),
        ("/a, /temp-queue/b", "/a,/queue/temp.default.23.b"),
        ("/queue/a, b", "/queue/a, b"),
        ("anything:at all", "anything:at all"),
    ],
)
def test_replies_go_to_names_that_all_understand(given: str, told: str) -> None:
    assert with_own_names(given, 23, OPTIONS) == told


def test_prefixes_are_configured() -> None:
    options = StompOptions(queue_prefix="queue://", topic_prefix="topic://", dsub_prefix="dsub://")
    assert resolve("queue://a", None, options, 23).routing_type == "anycast"
    assert resolve("topic://a", None, options, 23).routing_type == "multicast"
    assert resolve("dsub://a", None, options, 23).queue == "dsub.a"
    assert resolve("/queue/a", None, options, 23).address == "/queue/a"


@pytest.mark.parametrize(
    ("destination", "hint", "address"),
    [
        ("/topic/a.*", None, "a.*"),
        ("/topic/a.*.c", None, "a.*.c"),
        ("/topic/a.#", None, "a.#"),
        ("/topic/a.**", None, "a.#"),
        ("/topic/**", None, "#"),
        ("/topic/a.**.b", None, "a.#.b"),
        ("/topic/a.I*.*X", None, "a.I*.*X"),
        ("/topic/a.*{[0-9]}", None, "a.*{[0-9]}"),
        ("/topic/a.{[.,:]{1,3}}", None, "a.{[.,:]{1,3}}"),
        ("a.*", "MULTICAST", "a.*"),
        ("a.*", None, "a.*"),
    ],
)
def test_wildcards_to_subscribe_to(destination: str, hint: str | None, address: str) -> None:
    target = resolve(destination, hint, OPTIONS, 23, is_subscribed=True)
    assert (target.address, target.queue, target.routing_type) == (address, None, "multicast")


@pytest.mark.parametrize(
    ("destination", "hint", "part"),
    [
        ("/topic/a.I**.***", None, "has '***'; write '#' for any number of words"),
        ("/topic/a.b#", None, "'#' must be a word of its own"),
        ("/topic/{a::b}", None, "has '::', which divides address and queue; write ':{2}'"),
        ("/topic/a.{[}", None, "has '{[}', whose regular expression is wrong: missing ]: ["),
        ("/topic/a.{b", None, "has '{b', with a '{' alone; write {REGEX}"),
        ("/topic/a.**.{b}", None, "has a regular expression after '#'; put it before"),
        ("/topic/a.{}", None, "with an empty regular expression"),
        ("/topic/{", None, "has '{', with a '{' alone"),
        ("/topic/*.b}", None, "with a '}' that no '{' precedes"),
        ("/topic/a.{b)|(c}", None, "unexpected )"),
        ("/topic/a.{(b)\\1}", None, "invalid escape sequence"),
        ("/topic/a.{(b{1000}){1000}}", None, "whose regular expression is wrong"),
        ("/topic/a.{\\pL{500}}", None, "it is too large"),
        ("/topic/a.{" + "b" * 255 + "}", None, "257 characters with a regular expression; 256"),
        ("/topic/a.*::q", None, "wildcards are for SUBSCRIBE"),
        ("/topic/temp.*", None, "belong to temporary destinations"),
        (
            "/topic/" + ".".join(["*"] * 17),
            None,
            "has 17 words, and with wildcards 16 are the most",
        ),
        ("/topic/a.*", "ANYCAST", "destination-type says anycast"),
        ("/dsub/a.*", None, "wildcards are for SUBSCRIBE"),
    ],
)
def test_wildcards_that_mean_nothing(destination: str, hint: str | None, part: str) -> None:
    with pytest.raises(StompError) as caught:
        resolve(destination, hint, OPTIONS, 23, is_subscribed=True)
    assert part in caught.value.what + caught.value.advice
