"""Connectors, auto-links and sharded queues of a configuration are read, and faults refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from daybook.engine.commands import ChangeDistributions
from daybook.engine.facts.definitions import AutoLink, DistributionEntry, Waypoint
from daybook.server.configuration.config import Config, ConfigError, load
from daybook.server.configuration.config_changes import changes, effective
from daybook.server.configuration.connector_config import Secret
from daybook.server.configured import commands
from daybook.tools.daybook import cli

EAST = '[[connector]]\nname = "east"\nurl = "amqp://localhost:5673"\n'
WEST = '[[connector]]\nname = "west"\nurl = "amqps://west.example.org"\ncost = 4\n'
WAYPOINT = '[[address]]\nprefix = "orders"\nwaypoint = true\n'
DIRECT = '[[address]]\nprefix = "work"\n'
HOSTS = """[[virtual-host]]
name = "default"
host-names = ["d"]
[[virtual-host]]
name = "eu"
"""
PASSCODE = "open-sesame"


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Config]:
    def read_text(text: str, *overrides: str) -> Config:
        path = tmp_path / "broker.toml"
        path.write_text(text)
        return load(path, overrides)

    return read_text


@pytest.fixture
def problems(tmp_path: Path, read: Callable[..., Config]) -> Callable[[str], list[str]]:
    def find(text: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            read(text)
        return [one.replace(str(tmp_path / "broker.toml"), "FILE") for one in caught.value.problems]

    return find


def link(**keys: str) -> str:
    lines = "".join(f"{key.replace('_', '-')} = {value}\n" for key, value in keys.items())
    return f"[[auto-link]]\n{lines}"


def test_a_connector_has_defaults(read: Callable[..., Config]) -> None:
    config = read(EAST + WEST)
    east, west = config.connectors
    assert (east.url, east.tls, east.cost) == ("amqp://localhost:5673", False, 1)
    assert (west.url, west.port, west.tls, west.cost) == (
        "amqps://west.example.org:5671", 5671, True, 4,
    )  # fmt: skip
    assert (east.reconnect_delay, east.reconnect_delay_max, east.connect_timeout) == (
        1_000, 30_000, 10_000,
    )  # fmt: skip
    assert east.options["idle-time-out"] == 60_000
    assert "connect-timeout" not in east.options
    assert load().connectors == load().auto_links == load().sharded_queues == ()


def test_files_are_absolute_and_options_of_the_protocol_are_taken(
    read: Callable[..., Config],
) -> None:
    (west,) = read(
        WEST + 'certificate = "c.pem"\nprivate-key = "k.pem"\ntrusted-certificates = "ca.pem"\n'
        'login = "me"\npasscode-file = "p"\nmechanisms = ["EXTERNAL", "PLAIN"]\n'
        'max-frame-size = "1KiB"\nhost-name = "w"\ncontainer = "me"\nuser = "u"\n'
    ).connectors
    for path in (west.certificate, west.private_key, west.trusted_certificates, west.passcode_file):
        assert Path(path).is_absolute()
    assert west.options["max-frame-size"] == 1024
    assert west.mechanisms == ("EXTERNAL", "PLAIN")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[connector]]\nname = "a"\n', "FILE:1: connector.url is missing"),
        ('[[connector]]\nurl = "amqp://h"\n', "FILE:1: connector.name is missing"),
        (
            '[[connector]]\nname = "a"\nurl = "h:5672"\n',
            "FILE:3: connector.url: wrong; it must be SCHEME://HOST:PORT, like",
        ),
        ('[[connector]]\nname = "a"\nurl = "amqp://h:0"\n', "FILE:3: connector.url: wrong;"),
        ('[[connector]]\nname = "a"\nurl = "amqp://h/x"\n', "FILE:3: connector.url: wrong;"),
        (
            '[[connector]]\nname = "a"\nurl = "stomp://h:1"\n',
            "FILE:3: connector.url begins with stomp://; the broker connects by amqp:// or amqps:/",
        ),
        (EAST + EAST, "FILE:5: connector.name 'east' was used before, at FILE:2"),
        (EAST + 'login = "me"\n', "FILE:4: connector 'east': login is given without a passcode"),
        (EAST + 'passcode = "x"\n', "FILE:4: connector 'east': passcode is given without a login"),
        (
            EAST + 'passcode-file = "x"\n',
            "FILE:4: connector 'east': passcode-file is given without a login; write the login",
        ),
        (
            EAST + 'login = "me"\npasscode = "x"\npasscode-file = "y"\n',
            "FILE:5: connector 'east': it has a passcode and a passcode-file; remove one of them",
        ),
        (
            EAST + 'mechanisms = ["CRAM"]\n',
            "FILE:4: connector 'east': mechanisms has 'CRAM'; there",
        ),
        (
            EAST + 'mechanisms = ["PLAIN"]\n',
            "FILE:4: connector 'east': mechanisms has PLAIN, which",
        ),
        (
            EAST + 'mechanisms = ["EXTERNAL"]\n',
            "FILE:4: connector 'east': mechanisms has EXTERNAL, which needs TLS and a certificate",
        ),
        (
            EAST + 'trusted-certificates = "x"\n',
            "FILE:4: connector 'east': trusted-certificates is for TLS, which the URL is without;",
        ),
        (
            WEST + 'private-key = "k"\n',
            "FILE:5: connector 'west': private-key is given without cer",
        ),
        (
            EAST + 'reconnect-delay = "40s"\n',
            "FILE:4: connector 'east': reconnect-delay is 40000 ms, longer than reconnect-",
        ),
        (EAST + 'virtual-host = "x"\n', "FILE:4: connector.virtual-host is 'x', and there is no"),
        (EAST + "cost = 0\n", "FILE:4: connector.cost is 0; it must be a whole number from 1"),
        (EAST + "costs = 2\n", "FILE:4: unknown key 'connector.costs'; did you mean 'connector.co"),
    ],
)
def test_a_wrong_connector_is_refused_at_its_line(
    problems: Callable[[str], list[str]], text: str, said: str
) -> None:
    (found,) = problems(text)
    assert found.startswith(said), found


def test_no_passcode_is_shown(read: Callable[..., Config], tmp_path: Path) -> None:
    old = read(EAST + f'login = "me"\npasscode = "{PASSCODE}"\n')
    assert PASSCODE not in repr(old)
    assert str(old.connectors[0].passcode) == "..."
    assert old.connectors[0].passcode.reveal() == PASSCODE
    new = read(EAST + 'login = "me"\npasscode = "other"\n')
    (applied,), later = changes(old, new)
    assert (applied, later) == ('connector east: passcode "..." -> "..."', [])
    for text in (
        EAST + f'login = "me"\npasscode = ["{PASSCODE}"]\n',
        EAST + f'login = "me"\npasscode = "{PASSCODE}\\u0000"\n',
        f'[[connector]]\nname = "east"\nurl = "amqp://me:{PASSCODE}@h:1"\n',
    ):
        (tmp_path / "broker.toml").write_text(text)
        shown = CliRunner().invoke(cli, ["config", "check", str(tmp_path / "broker.toml")])
        assert shown.exit_code == 2
        assert PASSCODE not in shown.output
        assert f"{tmp_path / 'broker.toml'}:" in shown.output


def test_secrets_are_equal_by_their_text() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert len({Secret("a"), Secret("a")}) == 1
    assert Secret("a") != "a"
    assert not Secret("")
    assert repr(Secret("")) == ""


def test_a_connector_without_tls_is_warned_about(read: Callable[..., Config]) -> None:
    config = read(EAST.replace("localhost", "east.example.org") + WEST)
    (warning,) = config.warnings
    assert warning.startswith("connector 'east' connects to east.example.org without TLS")
    assert read(EAST).warnings == ()


# ---- auto-links


def test_auto_links_have_names_phases_and_costs(read: Callable[..., Config]) -> None:
    config = read(
        EAST + WEST + WAYPOINT
        + link(address='"orders"', direction='"out"', connector='"east"')
        + link(address='"orders"', direction='"in"', connector='"east"')
        + link(address='"orders"', direction='"out"', connector='"west"', external_address='"o.w"')
        + link(address='"orders"', direction='"out"', connector='"west"')
        + link(address='"orders"', direction='"in"', container='"r 1"', name='"back"')
    )  # fmt: skip
    assert [(each.link, each.connector, each.container) for each in config.auto_links] == [
        (AutoLink("orders-out-east", "orders", "orders", True), "east", ""),
        (AutoLink("orders-in-east", "orders", "orders", False, 1), "east", ""),
        (AutoLink("orders-out-west", "orders", "o.w", True, cost=4), "west", ""),
        (AutoLink("orders-out-west-2", "orders", "orders", True, cost=4), "west", ""),
        (AutoLink("back", "orders", "orders", False, 1), "", "r 1"),
    ]
    assert config.waypoints == (Waypoint("orders"),)
    put = next(each for each in commands(config) if isinstance(each, ChangeDistributions))
    assert put.waypoints == config.waypoints


def test_an_auto_link_of_a_queue_has_no_phase(read: Callable[..., Config]) -> None:
    config = read(
        EAST
        + link(address='"jobs"', direction='"in"', connector='"east"')
        + link(
            address='"jobs"',
            direction='"out"',
            connector='"east"',
            phase="0",
            external_address='"others"',
        )
    )
    assert [each.link.phase for each in config.auto_links] == [0, 0]
    assert config.waypoints == ()


def test_fallback_links_have_phase_0(read: Callable[..., Config]) -> None:
    fallback = {"connector": '"east"', "fallback": "true", "address": '"work.a"'}
    config = read(
        EAST + DIRECT + "enable-fallback = true\n"
        + link(direction='"out"', **fallback) + link(direction='"in"', **fallback)
    )  # fmt: skip
    assert [each.link for each in config.auto_links] == [
        AutoLink("work.a-out-east-fallback", "work.a", "work.a", True, 0, True),
        AutoLink("work.a-in-east-fallback", "work.a", "work.a", False, 0, True),
    ]
    assert config.waypoints == (Waypoint("work.a"),)


def test_a_phase_may_have_a_link_at_both_ends(read: Callable[..., Config]) -> None:
    config = read(
        EAST + WAYPOINT
        + link(address='"orders"', direction='"in"', connector='"east"', phase="5")
        + link(address='"orders"', direction='"out"', connector='"east"', phase="5")
    )  # fmt: skip
    assert [each.link.phase for each in config.auto_links] == [5, 5]


OUT = {"address": '"orders"', "direction": '"out"', "connector": '"east"'}
IN = OUT | {"direction": '"in"'}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (EAST + link(address='"a"', connector='"east"'), "FILE:4: auto-link.direction is missing"),
        (
            EAST + link(**(OUT | {"direction": '"up"'})),
            'FILE:6: auto-link.direction is "up"; it must be one of "out", "in"',
        ),
        (
            EAST + link(**OUT, container='"c"'),
            "FILE:8: auto-link: it has both connector and container; remove one of them",
        ),
        (
            EAST + link(address='"a"', direction='"in"'),
            "FILE:4: auto-link: it has neither connector nor container, like connector",
        ),
        (
            EAST + link(**(OUT | {"connector": '"eats"'})),
            "FILE:7: auto-link.connector: unknown connector 'eats'; did you mean 'east'?",
        ),
        (
            link(**OUT),
            "FILE:4: auto-link.connector: unknown connector 'east'; write a [[connector]] with",
        ),
        (
            EAST + WAYPOINT + link(**OUT, phase="10"),
            "FILE:11: auto-link.phase is 10; it must be a whole number from -1 to 9",
        ),
        (
            EAST + WAYPOINT + link(**OUT, fallback="true"),
            "FILE:11: auto-link: fallback is of no use at the waypoint 'orders', whose messages",
        ),
        (
            EAST + link(**OUT, fallback="true"),
            "FILE:8: auto-link: fallback is of no use at 'orders', whose messages are all stored",
        ),
        (
            EAST + DIRECT + link(**(OUT | {"address": '"work"'}), fallback="true"),
            "FILE:10: auto-link: 'work' has no fallback; set enable-fallback = true in an",
        ),
        (
            EAST + DIRECT + "enable-fallback = true\n"
            + link(**(OUT | {"address": '"work"'}), fallback="true", phase="2"),
            "FILE:12: auto-link: phase is 2, and a fallback has phase 0; remove it",
        ),
        (
            EAST + DIRECT + link(**(IN | {"address": '"work"'})),
            "FILE:6: auto-link: at phase 1 of 'work' nobody would get anything from it: consumers"
            " receive at phase 0; set phase = 0, or waypoint = true in an [[address]] for it",
        ),
        (
            EAST + WAYPOINT + link(**OUT, phase="1"),
            "FILE:11: auto-link: at phase 1 of 'orders' nobody would send anything to it: senders"
            " send at phase 0; set phase = 0",
        ),
        (
            EAST + link(**IN, phase="1"),
            "FILE:8: auto-link: phase is 1, and 'orders' has none: it stores its messages in a",
        ),
        (
            EAST + DIRECT + 'distribution = "unavailable"\n'
            + link(**(OUT | {"address": '"work"'})),
            "FILE:8: auto-link: 'work' is unavailable; use another address",
        ),
        (
            EAST + link(**OUT) + link(**IN),
            "FILE:8: auto-link: messages of 'orders' would go round, by this one and by that at"
            " FILE:4; set waypoint = true in an [[address]] for it, or remove one of them",
        ),
        (EAST + link(**OUT) + link(**OUT), "FILE:8: auto-link: it is the same as that at FILE:4"),
        (
            EAST + WAYPOINT + link(**OUT, name='"x"') + link(**IN, name='"x"'),
            "FILE:16: auto-link.name 'x' was used before, at FILE:11",
        ),
        (
            EAST + link(**(OUT | {"address": '"a.*"'})),
            "FILE:5: auto-link.address is \"a.*\"",
        ),
        (EAST + link(**OUT, virtual_host='"eu"'), "FILE:8: auto-link.virtual-host is 'eu', and"),
        (
            HOSTS + EAST + link(**OUT, virtual_host='"eu"'),
            "FILE:13: auto-link.virtual-host: connector 'east' is on the virtual host 'default'",
        ),
    ],
)  # fmt: skip
def test_a_wrong_auto_link_is_refused_at_its_line(
    problems: Callable[[str], list[str]], text: str, said: str
) -> None:
    (found,) = problems(text)
    assert found.startswith(said), found


def test_an_auto_link_is_on_the_virtual_host_of_its_connector(read: Callable[..., Config]) -> None:
    config = read(HOSTS + EAST + 'virtual-host = "eu"\n' + WAYPOINT + link(**OUT))
    assert [each.link.address for each in config.auto_links] == ["eu::orders"]
    assert config.auto_links[0].link.external == "orders"
    assert config.waypoints == (Waypoint("eu::orders"),)


# ---- sharded queues

SHARDED = '[[sharded-queue]]\nname = "orders"\nconnectors = ["east", "west"]\n'


def test_a_sharded_queue_is_a_waypoint_and_auto_links(read: Callable[..., Config]) -> None:
    config = read(EAST + WEST + SHARDED + 'shard-by = "group"\n')
    assert [(each.link, each.connector) for each in config.auto_links] == [
        (AutoLink("orders-out-east", "orders", "orders::orders", True, shard="east"), "east"),
        (AutoLink("orders-in-east", "orders", "orders::orders", False, 1), "east"),
        (
            AutoLink("orders-out-west", "orders", "orders::orders", True, cost=4, shard="west"),
            "west",
        ),
        (AutoLink("orders-in-west", "orders", "orders::orders", False, 1, cost=4), "west"),
    ]
    assert config.distributions == (DistributionEntry(pattern="orders", waypoint=True),)
    assert config.waypoints == (Waypoint("orders", True, "group", ("east", "west")),)
    assert [queue.name for queue in config.queues] == ["orders"]


def test_a_sharded_queue_may_be_without_a_queue_here(read: Callable[..., Config]) -> None:
    text = SHARDED + 'local = false\nexternal-address = "o"\n'
    config = read(EAST + WEST + WAYPOINT + text)
    assert config.waypoints == (Waypoint("orders", shards=("east", "west")),)
    assert config.queues == ()
    assert {each.link.external for each in config.auto_links} == {"o"}
    # The entry for the prefix is enough.
    assert config.distributions == (DistributionEntry(prefix="orders", waypoint=True),)


def test_a_queue_may_describe_the_shard_here(read: Callable[..., Config]) -> None:
    config = read(EAST + WEST + SHARDED + '[[queue]]\nname = "orders"\nring-size = 5\n')
    assert [queue.definition.ring_size for queue in config.queues] == [5]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SHARDED, "FILE:6: sharded-queue.connectors: unknown connector 'west'"),
        (
            WEST + '[[sharded-queue]]\nname = "orders"\n',
            "FILE:8: sharded-queue.connectors is missing",
        ),
        (
            WEST + '[[sharded-queue]]\nname = "orders"\nconnectors = []\n',
            "FILE:10: sharded-queue.connectors names no connector; name those to the other",
        ),
        (
            WEST + '[[sharded-queue]]\nname = "orders"\nconnectors = ["west", "west"]\n',
            "FILE:10: sharded-queue.connectors names a connector twice; each has one shard",
        ),
        (
            WEST + '[[sharded-queue]]\nname = "orders"\nconnectors = ["local"]\n',
            "FILE:10: sharded-queue.connectors names 'local', which is what the shard of this"
            " broker is called; give the connector another name",
        ),
        (
            WEST + SHARDED + SHARDED,
            "FILE:12: sharded-queue.name 'orders' was used before, at FILE:9",
        ),
        (
            WEST + SHARDED + 'shard-by = "key"\n',
            'FILE:11: sharded-queue.shard-by is "key"; it must be one of "load", "group"',
        ),
        (
            WEST + SHARDED + '[[address]]\nprefix = "x"\n[[address]]\npattern = "orders"\n',
            "FILE:9: sharded-queue: 'orders' is a waypoint, and the distribution of this address is"
            " 'balanced', by [[address]] with pattern 'orders'; remove that entry, or use another",
        ),
        (
            WEST + SHARDED + link(**OUT),
            "FILE:9: sharded-queue 'orders' makes auto-links of its own, and there is an"
            " [[auto-link]] for its address at FILE:11; remove one of them",
        ),
        (
            WEST + SHARDED + '[[queue]]\nname = "other"\naddress = "orders"\n',
            "FILE:13: queue.address is 'orders', but messages to this address go to the shards of",
        ),
        (
            WEST + SHARDED + '[[queue]]\nname = "orders"\naddress = "other"\n',
            "FILE:12: queue.name is 'orders', but messages to this address go to the shards of",
        ),
        (
            WEST + SHARDED
            + '[[divert]]\nname = "d"\naddress = "orders"\nforwarding-addresses = ["x"]\n',
            "FILE:13: divert.address is 'orders', but messages to this address go to the shards",
        ),
        (
            WEST + SHARDED + 'local = false\n[[queue]]\nname = "orders"\n',
            "FILE:13: queue.name is 'orders', but messages to this address are stored by others:",
        ),
        (
            WEST + WAYPOINT + link(**OUT) + '[[address]]\nname = "orders"\n',
            "FILE:16: address.name is 'orders', but messages to this address are stored by others:",
        ),
        (
            WEST + SHARDED.replace('"orders"', '"a..b"'),
            "FILE:9: sharded-queue: name is 'a..b'; it has an empty token; write one separator",
        ),
    ],
)  # fmt: skip
def test_a_wrong_sharded_queue_is_refused_at_its_line(
    problems: Callable[[str], list[str]], text: str, said: str
) -> None:
    (found,) = problems(EAST + text)
    assert found.startswith(said), found


def test_a_name_of_a_sharded_queue_wins_over_a_wider_pattern(read: Callable[..., Config]) -> None:
    text = '[[address]]\npattern = "#"\npriority = 7\n'
    config = read(EAST + WEST + SHARDED + text)
    entry = DistributionEntry(pattern="orders", waypoint=True, priority=7)
    assert config.distributions[-1] == entry


# ---- acceptors, checks, reloads


def test_an_acceptor_may_be_for_containers(
    read: Callable[..., Config], problems: Callable[[str], list[str]]
) -> None:
    text = '[[acceptor]]\nprotocol = "{}"\nrole = "container"\n'
    (acceptor,) = read(text.format("amqp")).acceptors
    assert acceptor.role == "container"
    (found,) = problems(text.format("http"))
    assert found == (
        "FILE:3: acceptor 'http': containers speak amqp, which is not spoken here; set role to"
        " normal, or protocol to one of these"
    )


def test_a_reload_adds_changes_and_removes(read: Callable[..., Config]) -> None:
    old = read(EAST + WAYPOINT + link(**OUT))
    new = read(EAST + "cost = 2\n" + WEST + SHARDED)
    applied, later = changes(old, new)
    assert later == []
    assert {
        "connector east: cost 1 -> 2",
        "connector west: added",
        "sharded-queue orders: added",
        "auto-link orders-in-west: added",
        'auto-link orders-out-east: external "orders" -> "orders::orders"',
        "address with prefix 'orders': removed",
    } <= set(applied)
    assert effective(old, new).auto_links == new.auto_links
    assert effective(old, new).waypoints == new.waypoints
    assert effective(old, new).connectors == new.connectors


def test_config_check_counts_them(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(EAST + WEST + SHARDED)
    checked = CliRunner().invoke(cli, ["config", "check", str(path)])
    assert checked.output.endswith(
        ", 1 distributions, 2 connectors, 4 auto-links, 1 sharded queues, 0 link routes\n"
    )
