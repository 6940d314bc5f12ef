"""Keys of acceptors: those that all have, and those that their protocols describe."""

from pathlib import Path

import msgspec
import pytest

from daybook.protocols.registry import OFFERS
from daybook.protocols.stomp.offer import Stomp
from daybook.protocols.stomp.wire.options import StompOptions
from daybook.server.config_keys.acceptor_options import COMMON, TOLD_APART
from daybook.server.config_keys.acceptor_options import TABLES as ACCEPTORS
from daybook.server.configuration.config import ConfigError, default_of, load
from daybook.server.configuration.config_changes import changes, effective
from tests.unit.server.configuration.test_config import Writer


@pytest.fixture
def write(tmp_path: Path) -> Writer:
    return Writer(tmp_path / "broker.toml")


def test_the_defaults_of_an_acceptor_are_those_of_its_protocol() -> None:
    assert Stomp(load().acceptors[0].options).options == StompOptions()


def test_an_acceptor_tells_its_protocol_everything() -> None:
    flags = ["max-headers=2", "max-header-length=100", "max-frame-head=2KiB", "die-delay=1s"]
    flags += [
        "max-data-length=3",
        "min-large-message-size=2KiB",
        "max-early-data=4KiB",
        "max-subscriptions=5",
        "max-wildcard-queues=6",
    ]
    flags += ["connect-timeout=6s", "body-timeout=5s", "heart-beat-send=7", "heart-beat-receive=8"]
    flags += ['hosts=["h"]', 'anycast-prefix=["a/"]', 'multicast-prefix=["m/"]']
    flags += ["add-user-header=u", "add-timestamp-header=t", "add-redeliveries-header=r"]
    flags += ["default-persistent=false", "queue-prefix=q/", "topic-prefix=t/", "buffer-size=9KiB"]
    flags += ["path-separator=/", "destination-separator=;", "any-child-wildcard=+"]
    flags += ["any-descendant-wildcard=++", "regex-wildcard-start=<", "regex-wildcard-end=>"]
    flags += ["percent-encoding=true", 'add-user-headers=["roles;kind=role"]']
    config = load(None, [f"acceptor.{flag}" for flag in flags])
    given = msgspec.structs.asdict(Stomp(config.acceptors[0].options).options)
    same = {
        name
        for name, value in msgspec.structs.asdict(StompOptions()).items()
        if given[name] == value
    }
    of_others = {"populate_validated_user", "syntax", "virtual_hosts", "host"}
    assert same == {"heart_beat_grace", "dsub_prefix", *of_others}


@pytest.mark.parametrize("scheme", OFFERS)
def test_every_default_of_an_acceptor_is_valid_and_has_a_place(scheme: str) -> None:
    (acceptor,) = load(None, [], [f"{scheme}://127.0.0.1:0"]).acceptors
    fields = msgspec.structs.asdict(acceptor)
    for option in ACCEPTORS[scheme]:
        if option.name not in COMMON:
            assert acceptor.options[option.name] == default_of(option)
        elif option.name not in ("name", "protocol", "protocols", "listen"):
            assert fields[option.name.replace("-", "_")] == default_of(option)
    assert acceptor.protocol == acceptor.name == scheme
    by_file = load(None, [f"acceptor.protocol={scheme}"]).acceptors[0]
    assert f"{by_file.host}:{by_file.port}" == OFFERS[scheme].listen


def test_a_flag_sets_the_acceptors_whose_protocol_has_the_key() -> None:
    config = load(
        None,
        ["acceptor.max-headers=3", "acceptor.max-queues=7", "acceptor.max-connections=9"],
        ["stomp://localhost:1", "http://localhost:2"],
    )
    stomp, http = config.acceptors
    assert (stomp.options["max-headers"], http.options["max-queues"]) == (3, 7)
    assert "max-queues" not in stomp.options
    assert stomp.max_connections == http.max_connections == 9
    with pytest.raises(ConfigError, match=r"unknown key 'acceptor.max-headers'"):
        load(None, ["acceptor.max-headers=3"], ["http://localhost:2"])


def test_several_protocols_have_their_own_options_and_share_some(write: Writer) -> None:
    config = write.load(
        "[[acceptor]]\nprotocols = ['amqp', 'stomp']\nlisten = 'localhost:61616'\n"
        "max-headers = 7\ncredit = 5\nqueue-prefix = 'q/'\nwebsocket = false\n"
    )
    (acceptor,) = config.acceptors
    assert (acceptor.name, acceptor.protocol) == ("amqp+stomp", "amqp+stomp")
    amqp, stomp = acceptor.speaks.values()
    assert amqp["max-headers"] == stomp["max-headers"] == 7
    assert (amqp["credit"], stomp["queue-prefix"]) == (5, "q/")
    assert (amqp["anycast-prefix"], stomp["anycast-prefix"]) == (("queue://", "/queue/"), ())
    assert "credit" not in stomp
    assert acceptor.options["credit"] == 5
    assert acceptor.options["anycast-prefix"] == amqp["anycast-prefix"]
    assert acceptor.options["websocket"] is False


@pytest.mark.parametrize(
    ("listen", "protocols", "tls"),
    [
        ("amqp+stomp://127.0.0.1:0", ["amqp", "stomp"], False),
        ("stomps+amqps://127.0.0.1:0?certificate=x", ["stomp", "amqp"], True),
    ],
)
def test_a_flag_names_several_protocols(listen: str, protocols: list[str], tls: bool) -> None:
    config = load(None, ["acceptor.credit=3", "acceptor.hosts=['h']"], [listen])
    (acceptor,) = config.acceptors
    assert (list(acceptor.speaks), acceptor.tls) == (protocols, tls)
    assert acceptor.speaks["amqp"]["credit"] == 3
    assert acceptor.speaks["stomp"]["hosts"] == ("h",)
    flags = [f"acceptor.protocols={protocols!r}", "acceptor.credit=3"]
    assert load(None, flags).acceptors[0].speaks["amqp"]["credit"] == 3


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("protocols = ['amqp', 'http']", 'must be a list of one or more of "stomp", "amqp"'),
        ("protocols = []", "must be a list of one or more of"),
        ("protocols = 'amqp'", "must be a list of one or more of"),
        ("protocol = 'amqp'\nprotocols = ['amqp']", "stands for acceptor.protocol: give one"),
        ("protocols = ['amqp', 'stomp']\nmax-queues = 1", "unknown key 'acceptor.max-queues'"),
        (
            "protocols = ['stomp', 'amqp']\nanycast-prefix = ['a:']\nmulticast-prefix = ['a:']",
            "'a:' would mean two things",
        ),
    ],
)
def test_protocols_that_an_acceptor_cannot_have(write: Writer, text: str, wrong: str) -> None:
    problems = write.problems(f"[[acceptor]]\n{text}\n")
    assert any(wrong in each and each.startswith("FILE:") for each in problems), problems


def test_protocols_of_one_acceptor_agree_on_what_their_options_are() -> None:
    """A value is checked once, for all of them."""
    shared: dict[str, set[object]] = {}
    for scheme in TOLD_APART:
        for option in OFFERS[scheme].options:
            shared.setdefault(option.name, set()).add(option.range)
    assert not [name for name, ranges in shared.items() if len(ranges) > 1]


def test_a_key_of_another_protocol_is_unknown(write: Writer) -> None:
    (problem,) = write.problems("[[acceptor]]\nprotocol = 'http'\nhosts = ['a']\n")
    assert "FILE:3: unknown key 'acceptor.hosts'" in problem


def test_an_acceptor_keeps_its_protocol_until_a_restart(write: Writer) -> None:
    old = write.load("[[acceptor]]\nname = 'a'\nprotocol = 'http'\nlisten = 'localhost:1'\n")
    live = write.load(
        "[[acceptor]]\nname = 'a'\nprotocol = 'http'\nlisten = 'localhost:1'\nmax-queues = 5\n"
    )
    assert changes(old, live) == (["acceptor a: max-queues 1000 -> 5"], [])
    new = write.load("[[acceptor]]\nname = 'a'\nlisten = 'localhost:1'\n")
    applied, later = changes(old, new)
    assert applied == []
    assert 'acceptor a: protocol "http" -> "stomp"' in later
    assert effective(old, new) == old


def test_an_allowed_host_that_is_no_name_is_a_problem() -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, [], ["http://127.0.0.1:0?allowed-hosts=['a:1']"])
    assert 'allowed-hosts: "a:1" is not the name of a host' in str(caught.value)
