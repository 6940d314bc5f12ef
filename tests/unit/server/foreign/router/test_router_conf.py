"""The configuration of a router: what its sections become, and that nothing is left unsaid."""

import time
from pathlib import Path
from typing import Any

import pytest

from daybook.engine.facts.definitions import LinkRoute
from daybook.engine.settings.distributions import Distributions
from daybook.server.configuration.config import Config, ConfigError, load
from daybook.server.configuration.config_text import as_toml
from daybook.server.foreign.findings import Findings
from daybook.server.foreign.reading import read_foreign
from daybook.server.foreign.router.router_conf import read_router_conf
from daybook.server.foreign.router.schema import FLAG, MAP, NUMBER, SECTIONS, UNREAD, Kind
from tests.support.brokers.router_conf import BROKER, PIECES, Link, blocks_of, document


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "router.conf"


def section(name: str, *lines: str) -> str:
    return f"{name} {{\n" + "".join(f"{line}\n" for line in lines) + "}\n"


def problems(file: Path, text: str) -> list[str]:
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file)
    return [each.removeprefix(f"{file}:") for each in caught.value.problems]


def read(file: Path, text: str) -> tuple[Config, list[str], list[str]]:
    """Return the configuration, and what is lost and needless in it."""
    file.write_text(text)
    config = load(file)
    found = Findings()
    assert read_foreign(file, [], found) is not None
    return (
        config,
        [each.removeprefix(f"{file}:") for each in found.lost],
        [each.removeprefix(f"{file}:") for each in found.needless],
    )


def again(file: Path) -> Config:
    """Return the configuration that a file is as a broker.toml."""
    findings = Findings()
    source = read_router_conf(file, [], findings)
    toml = file.with_suffix(".toml")
    toml.write_text(as_toml(source, file.name, findings.lost, findings.needless))
    return load(toml)


def same(file: Path) -> None:
    """Ask that a file and the broker.toml that it becomes mean the same."""
    first, second = load(file), again(file)
    for field in first.__struct_fields__:
        if field not in ("warnings", "foreign"):
            assert getattr(first, field) == getattr(second, field), field


@pytest.mark.parametrize("name", PIECES)
def test_an_example_of_the_manual_means_the_same(file: Path, name: str) -> None:
    piece = PIECES[name]
    file.write_text(document(piece.sections))
    same(file)
    for config in (load(file), again(file)):
        table = Distributions(config.distributions, config.broker.default_distribution)
        for address, entry in piece.found.items():
            assert table.find(address) == entry, address
        links = [
            Link(each.link.address, each.link.is_out, each.link.phase, each.link.is_fallback,
                 each.link.external if each.link.external != each.link.address else "")
            for each in config.auto_links
        ]  # fmt: skip
        assert tuple(links) == piece.links
        assert {each.connector for each in config.auto_links} <= {"my_broker"}


def test_a_router_is_the_broker(file: Path) -> None:
    text = section(
        "router", "id: Router.A", "mode: interior", "defaultDistribution: unavailable",
        "workerThreads: 4", "saslConfigDir: /etc/sasl2",
    )  # fmt: skip
    config, lost, needless = read(file, text)
    assert config.broker.name == "Router.A"
    assert config.broker.default_distribution == "unavailable"
    assert lost == [
        "1: no listener could be taken over; clients need an [[acceptor]]",
        "3: router: mode interior: only a network of routers has it, and this broker is none;"
        " connect to a router by a connector",
        "6: router: saslConfigDir: users are not taken over; add them with `daybook user add`",
    ]
    assert needless == ["5: router: workerThreads: the broker has no pools of threads"]
    config, _, _ = read(file, section("router", "id: A"))
    assert config.broker.default_distribution == "balanced", "as the router has it"


def test_a_listener_is_an_acceptor(file: Path) -> None:
    text = section(
        "listener", "name: my clients", "host: 10.0.0.1", "port: amqp", "authenticatePeer: yes",
        "maxFrameSize: 65536", "maxSessions: 7", "idleTimeoutSeconds: 20",
        "initialHandshakeTimeoutSeconds: 5", "http: yes", "healthz: no", "metrics: no",
    )  # fmt: skip
    config, lost, needless = read(file, text)
    (acceptor,) = config.acceptors
    assert (acceptor.name, acceptor.host, acceptor.port) == ("my-clients", "10.0.0.1", 5672)
    assert acceptor.protocol == "amqp"
    assert acceptor.allow_cleartext
    wanted = {
        "max-frame-size": 65536, "max-sessions": 7, "idle-time-out": 20_000,
        "connect-timeout": 5_000, "websocket": True,
    }  # fmt: skip
    assert {key: acceptor.options[key] for key in wanted} == wanted
    assert not config.broker.allow_guest
    assert not lost
    assert len(needless) == 1
    same(file)


@pytest.mark.parametrize(
    ("lines", "listen"),
    [
        ((), ("0.0.0.0", 5672)),
        (("host: ::1", "port: amqps"), ("::1", 5671)),
        (("host: [::]", "port: 0"), ("::", 0)),
        (("socketAddressFamily: IPv6",), ("::", 5672)),
        (("addr: localhost", "port: 5673"), ("localhost", 5673)),
    ],
)
def test_where_a_listener_listens(
    file: Path, lines: tuple[str, ...], listen: tuple[str, int]
) -> None:
    config, _, _ = read(file, section("listener", *lines))
    assert (config.acceptors[0].host, config.acceptors[0].port) == listen
    assert not config.acceptors[0].options["websocket"]


def test_who_may_come_without_a_login(file: Path) -> None:
    open_to_all = section("listener", "name: a", "port: 1001")
    config, lost, _ = read(file, open_to_all)
    assert config.broker.allow_guest
    assert "1: listener: authenticatePeer is no: without a login only clients of this" in lost[0]
    closed = section("listener", "name: b", "port: 1002", "authenticatePeer: on")
    config, _, _ = read(file, open_to_all + closed)
    assert not config.broker.allow_guest, "a guest is one at every acceptor"


def test_a_profile_is_the_tls_of_acceptors_and_connectors(file: Path) -> None:
    text = (
        section(
            "sslProfile", "name: p", "certFile: /etc/cert.pem", "privateKeyFile: /etc/key.pem",
            "caCertFile: /etc/ca.pem", "protocols: TLSv1.1 TLSv1.3", "ciphers: HIGH",
            "password: file:/etc/passphrase", "uidFormat: cou",
        )
        + section(
            "listener", "port: amqps", "sslProfile: p", "requireSsl: yes", "authenticatePeer: yes",
            "saslMechanisms: EXTERNAL GSSAPI",
        )
        + section(
            "connector", "name: east", "host: east.example.org", "port: amqps", "sslProfile: p",
            "verifyHostName: no",
        )
        + section("sslProfile", "name: unused")
    )  # fmt: skip
    config, lost, needless = read(file, text)
    (acceptor,) = config.acceptors
    assert acceptor.tls
    assert (acceptor.certificate, acceptor.key) == ("/etc/cert.pem", "/etc/key.pem")
    assert (acceptor.client_ca, acceptor.client_certificates) == ("/etc/ca.pem", "required")
    assert (acceptor.certificate_login, acceptor.tls_min_version) == ("cn", "1.3")
    assert acceptor.ciphers == "HIGH"
    (connector,) = config.connectors
    assert connector.url == "amqps://east.example.org:5671"
    assert connector.trusted_certificates == "/etc/ca.pem"
    assert (connector.certificate, connector.private_key) == ("/etc/cert.pem", "/etc/key.pem")
    assert (connector.verify_host_name, connector.tls_min_version) == (False, "1.3")
    said = "\n".join(lost)
    assert "6: sslProfile: protocols: there are TLSv1.2 and TLSv1.3" in said
    assert "7: sslProfile: ciphers: connector 'east' takes those of this machine" in said
    assert "8: sslProfile: password: the private key must be without a passphrase" in said
    assert "9: sslProfile: uidFormat cou: the login from a certificate is its common name" in said
    assert "16: listener: saslMechanisms: the broker offers every mechanism" in said
    assert "; GSSAPI is not there" in said
    assert "25: sslProfile 'unused': nothing uses it" in needless
    same(file)


def test_a_connector_logs_in(file: Path) -> None:
    text = section(
        "connector", "name: my broker", "host: 127.0.0.1", "port: 5673", "role: route-container",
        "cost: 3", "saslUsername: alice", "saslPassword: file:/etc/passcode",
        "saslMechanisms: GSSAPI PLAIN", "maxFrameSize: 32768", "idleTimeoutSeconds: 0",
    )  # fmt: skip
    config, lost, _ = read(file, text)
    (connector,) = config.connectors
    assert (connector.name, connector.url) == ("my-broker", "amqp://127.0.0.1:5673")
    assert (connector.cost, connector.login) == (3, "alice")
    assert connector.passcode_file == "/etc/passcode"
    assert connector.mechanisms == ("PLAIN",)
    assert connector.options["max-frame-size"] == 32768
    assert connector.options["idle-time-out"] == 0
    text = "9: connector: saslMechanisms: GSSAPI is not there, or needs a login or a certificate"
    assert text in lost
    same(file)


def test_a_connector_without_a_login_uses_what_needs_none(file: Path) -> None:
    text = section("connector", "name: a", "saslMechanisms: EXTERNAL PLAIN ANONYMOUS")
    config, lost, _ = read(file, text)
    assert config.connectors[0].mechanisms == ("ANONYMOUS",)
    assert any("EXTERNAL, PLAIN is not there, or needs a login" in each for each in lost)
    same(file)


@pytest.mark.parametrize(
    ("given", "passcode"),
    [
        ("pass:a:b", "a:b"),
        ("literal:ab", "ab"),
        ("a:b", "a:b"),
        ("plain", "plain"),
        ("987654", "987654"),
    ],
)
def test_a_passcode_in_the_file(file: Path, given: str, passcode: str) -> None:
    text = section("connector", "name: a", "saslUsername: alice", f"saslPassword: {given}")
    config, lost, needless = read(file, text)
    assert config.connectors[0].passcode.reveal() == passcode
    assert config.connectors[0].mechanisms == ("SCRAM-SHA-256", "PLAIN"), "as the router does"
    assert given not in "".join((*lost, *needless, *config.warnings))


def test_what_only_a_network_of_routers_has_is_named(file: Path) -> None:
    text = (
        section("listener", "name: inter", "role: inter-router", "port: 20000", "cost: 10")
        + section("listener", "name: edges", "role: edge", "port: 20001")
        + section("connector", "name: b", "host: b", "role: inter-router", "cost: 10")
        + section("autoLink", "address: q", "direction: out", "connection: b")
        + section("listener", "name: own", "port: 1", "authenticatePeer: yes")
        + section("autoLink", "address: q", "direction: out", "connection: own")
    )
    config, lost, _ = read(file, text)
    assert [each.name for each in config.acceptors] == ["own"]
    assert not config.connectors
    assert not config.auto_links
    network = "only a network of routers has it, and this broker is none"
    assert lost == [
        f"3: listener: 'inter' is not opened: role inter-router: {network}",
        f"9: listener: 'edges' is not opened: role edge: {network}",
        f"15: connector: 'b' is not opened: role inter-router: {network}",
        f"21: autoLink: it is not taken over: its connector has the role inter-router: {network}",
        "31: autoLink: it is not taken over: 'own' is a listener: name the peer that connects to"
        " it with containerId",
    ]


def test_an_auto_link_to_a_container(file: Path) -> None:
    text = (
        section("listener", "name: brokers", "role: route-container", "port: 1")
        + section("address", "prefix: q", "waypoint: yes")
        + section("autoLink", "addr: q", "dir: out", "containerId: store", "externalAddr: s/q")
        + section("autoLink", "addr: q", "dir: in", "containerId: store", "phase: 1")
    )
    config, lost, _ = read(file, text)
    assert config.acceptors[0].role == "container"
    assert [(each.container, each.link.external) for each in config.auto_links] == [
        ("store", "s/q"), ("store", "q"),
    ]  # fmt: skip
    assert not any("stores its messages" in each for each in lost)
    same(file)


def test_link_routes(file: Path) -> None:
    text = (
        BROKER
        + section("linkRoute", "prefix: a", "dir: in", "connection: my_broker",
                  "addExternalPrefix: x.", "delExternalPrefix: a.", "distribution: linkBalanced")
        + section("linkRoute", "pattern: b/#", "direction: out", "containerId: store")
        + section("linkRoute", "prefix: c", "direction: out", "connection: far")
        + section("connector", "name: far", "role: edge")
    )  # fmt: skip
    config, lost, _ = read(file, text)
    assert config.link_routes == (
        LinkRoute("a", "", True, "my_broker", "", "x.", "a."),
        LinkRoute("", "b/#", False, "", "store"),
    )
    assert any(
        each.startswith("24: linkRoute: it is not taken over: its connector") for each in lost
    )
    same(file)


def test_dead_letters_of_what_is_stored_here_are_stored(file: Path) -> None:
    text = section("address", "prefix: a", "waypoint: yes")
    config, _, _ = read(file, text)
    table = Distributions(config.distributions, config.broker.default_distribution)
    assert [table.find(name).is_stored for name in ("DLQ", "ExpiryQueue", "DLQ.x")] == [
        True, True, False,
    ]  # fmt: skip
    same(file)
    config, _, _ = read(file, text + section("address", "prefix: DLQ", "distribution: multicast"))
    table = Distributions(config.distributions, config.broker.default_distribution)
    assert table.find("DLQ").distribution == "multicast", "as the file says"
    config, _, _ = read(file, text + section("address", "pattern: #", "distribution: closest"))
    assert Distributions(config.distributions).find("DLQ").is_stored, "as # names nothing"
    config, _, _ = read(file, section("address", "prefix: a"))
    assert len(config.distributions) == 1, "nothing is stored here"


def test_phases_that_are_a_waypoint(file: Path) -> None:
    text = (
        section("address", "prefix: a", "ingressPhase: 0", "egressPhase: 1")
        + section("address", "prefix: b", "egressPhase: 0", "waypoint: yes")
        + section("address", "prefix: c", "ingressPhase: 1", "egressPhase: 2")
        + section("address", "prefix: d", "waypoint: yes", "distribution: multicast")
        + section("address", "prefix: e", "priority: -7")
        + section("address", "prefix: f", "enableFallback: yes")
    )
    config, lost, _ = read(file, text)
    found = {each.prefix: each for each in config.distributions}
    assert [each for each, entry in found.items() if entry.waypoint] == ["a", "d"]
    assert "c" not in found
    assert found["e"].priority is None
    said = "\n".join(lost)
    assert "13: address: the address is not taken over: senders would send at phase 1" in said
    assert "19: address: distribution multicast: a waypoint is balanced between" in said
    stored = "address: no autoLink leads to a store for it; here a queue of this broker"
    assert [line for line in lost if stored in line] == [
        f"{line}: {stored} stores its messages" for line in (1, 18, 27)
    ]


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        (section("address", "prefix: a", "priority: 10"), 3, "address.priority is 10; it must be"),
        (section("address", "prefix: a", "ingressPhase: 10"), 3, "ingressPhase is 10; it must be"),
        (section("address", "prefix: a", "egressPhase: -1"), 3, "egressPhase is -1; it must be"),
        (section("address", "prefix: a", "waypoint: yes", "enableFallback: yes"), 4,
         "enable-fallback is of no use with waypoint"),
        (section("address", "prefix: a", "pattern: a/#"), 3, "it has a prefix and a pattern"),
        (section("address", "distribution: closest"), 1, "it has neither prefix nor pattern"),
        (section("address", "prefix: a") + section("address", "pattern: a/#"), 5, "remove one"),
        (section("address", "prefix: a", "distribution: spread"), 3,
         "distribution is 'spread'; it must be one of multicast, closest"),
        (section("address", "prefix: a", "waypoint: maybe"), 3, "it must be yes or no"),
        (section("address", "prefix: a", "priority: high"), 3, "it must be a whole number"),
        (section("address", "prefx: a"), 2, "unknown attribute 'prefx'; did you mean 'prefix'?"),
        (section("adress", "prefix: a"), 1, "unknown section 'adress'; did you mean 'address'?"),
        (section("router", "id: a") * 2, 4, "router: there is one before, at line 1"),
        (section("connector", "name: a") * 2, 4, "name 'a' was used before, at line 1"),
        (section("listener", "name: a") * 2, 4, "name 'a' was used before, at line 1"),
        (section("listener", "host: a", "addr: b"), 3, "addr is the same as that of line 2"),
        (section("listener", "port: 65536"), 2, "acceptor.listen is"),
        (section("listener", "port: http"), 2, "acceptor.listen is"),
        (section("listener", "sslProfile: p"), 2, "sslProfile is 'p', and there is none of this"),
        (section("listener", "requireSsl: yes"), 2, "requireSsl is yes, and there is no"),
        (section("connector", "name: a", "saslUsername: b", "saslPassword: env:PASSCODE"), 4,
         "saslPassword is in the environment"),
        (section("autoLink", "direction: in", "containerId: a"), 1, "address is missing"),
        (section("autoLink", "address: a", "direction: both", "containerId: a"), 3,
         "direction is 'both'; it must be one of in, out"),
        (section("autoLink", "address: a", "direction: in"), 1,
         "it has neither connection nor containerId"),
        (section("autoLink", "address: a", "direction: in", "connection: a", "containerId: b"), 5,
         "it has connection and containerId; remove one of them"),
        (section("autoLink", "address: a", "direction: in", "connection: a"), 4,
         "connection is 'a', and no connector or listener has this name"),
        (BROKER + section("autoLink", "address: a", "direction: out", "connection: my_broker",
                          "phase: 10"), 12, "phase is 10; it must be from 0 to 9"),
        (section("linkRoute", "direction: in", "containerId: a"), 1,
         "it has neither prefix nor pattern"),
        (section("linkRoute", "direction: in", "prefix: a", "pattern: b", "containerId: a"), 4,
         "it has a prefix and a pattern; remove one of them"),
        (section("linkRoute", "direction: in", "prefix: a"), 1,
         "it has neither connection nor containerId"),
        (section("linkRoute", "direction: in", "prefix: a", "connection: a", "containerId: b"), 5,
         "it has connection and containerId"),
        (section("linkRoute", "prefix: a"), 1, "direction is missing"),
        (section("log", "module: DEFAULT", "enable: loud+"), 3, "enable is 'loud+'; it must be of"),
        ("router {\nid A\n}\n", 2, "'id A': this must be an attribute"),
    ],
)  # fmt: skip
def test_a_contradiction_is_refused_with_its_line(
    file: Path, text: str, where: int, what: str
) -> None:
    found = problems(file, text)
    assert len(found) == 1, found
    assert found[0].startswith(f"{where}: "), found
    assert what in found[0]


def test_faults_without_end_are_not_all_listed(file: Path) -> None:
    found = problems(file, "adress {\n}\n" * 500)
    assert len(found) == 101
    assert found[-1] == "199: there may be more faults behind this line"


def test_many_sections_are_read_quickly(file: Path) -> None:
    """Nothing is looked for in all addresses once for each auto-link."""
    number = 20_000
    text = "".join(
        section("address", f"prefix: a{each}", "waypoint: yes")
        + section("autoLink", f"address: a{each}", "direction: out", "containerId: c")
        for each in range(number)
    )
    file.write_text(text)
    findings = Findings()
    begun = time.process_time()
    source = read_router_conf(file, [], findings)
    assert time.process_time() - begun < 30
    assert len(source.arrays["auto-link"]) == number
    assert len(findings.lost) == 1


def test_an_auto_link_that_nobody_would_hear_is_refused(file: Path) -> None:
    text = BROKER + section("autoLink", "address: a", "direction: in", "connection: my_broker")
    (found,) = problems(file, text)
    assert "auto-link: at phase 1 of 'a' nobody would get anything from it" in found


def test_an_auto_link_that_feeds_consumers_of_an_ordinary_address(file: Path) -> None:
    lines = ("address: a", "direction: in", "connection: my_broker", "phase: 0")
    config, _, _ = read(file, BROKER + section("autoLink", *lines))
    assert [each.link.phase for each in config.auto_links] == [0]
    same(file)


def test_logs_and_policies(file: Path) -> None:
    text = (
        section("log", "module: DEFAULT", "enable: warning+", "outputFile: /var/log/router.log")
        + section("log", "module: ROUTER", "enable: trace+")
        + section("policy", "maxConnections: 77", "maxMessageSize: 4096", "policyDir: /etc/p")
        + section("vhost", "hostname: shop", "maxConnections: 3")
        + section("listener", "port: 1", "authenticatePeer: yes")
        + section("exchange", "address: x", "name: x")
        + section("site", "location: here")
    )
    config, lost, needless = read(file, text)
    assert config.log.level == "warning"
    assert config.broker.max_connections == 77
    assert config.acceptors[0].options["max-message-size"] == 4096
    assert [each.partition(":")[0] for each in lost] == ["4", "13", "23"]
    assert "23: exchange: exchanges are not taken over" in lost[-1]
    assert [each.partition(":")[0] for each in needless] == ["7", "15", "27"]
    _, lost, _ = read(file, text.replace("maxConnections: 77", "enableVhostPolicy: yes"))
    assert any("vhost 'shop': its users, groups and limits are not taken over" in x for x in lost)
    same(file)


SAMPLES: dict[str, Any] = {
    "host": "127.0.0.2", "port": "7777", "sslProfile": "p", "mode": "edge", "role": "edge",
    "connection": "a", "distribution": "closest", "defaultDistribution": "closest",
    "stripAnnotations": "no", "direction": "in", "module": "DEFAULT", "enable": "debug+",
    "priority": "3", "ingressPhase": "1", "egressPhase": "1", "phase": "1",
    "saslMechanisms": "EXTERNAL", "protocols": "TLSv1.3", "saslPassword": "x",
}  # fmt: skip
BASES: dict[str, tuple[str, ...]] = {
    "listener": ("http: yes", "port: 7778"),
    "connector": ("name: x", "saslUsername: u"),
    "address": ("prefix: x",),
    "autoLink": ("address: x", "direction: out", "containerId: c"),
    "linkRoute": ("prefix: a", "direction: out", "containerId: c"),
    "log": ("module: DEFAULT", "enable: info+"),
}
"""A section that is right without its further attributes."""
AS_A_WHOLE = ("vhost",)
"""Sections that are named as a whole."""
OFF = ("healthz", "metrics", "websockets", "verifyHostname")
"""Attributes that are yes by default."""


def _sample(key: str, kind: Kind) -> str:
    if key in SAMPLES:
        return str(SAMPLES[key])
    if kind.words:
        return kind.words[-1]
    return {NUMBER: "7", FLAG: "no" if key in OFF else "yes"}.get(kind.type, "text")


@pytest.mark.parametrize(
    ("name", "key"),
    [(name, key) for name, known in SECTIONS.items() if name not in AS_A_WHOLE for key in known],
)
def test_no_attribute_is_ignored_in_silence(file: Path, name: str, key: str) -> None:
    """Whatever it is, it changes the configuration, or it is named."""
    kind = SECTIONS[name][key]
    before = [each for each in BASES.get(name, ()) if not each.startswith(f"{key}:")]
    lines = [f"{key}: {{", "}"] if kind.type == MAP else [f"{key}: {_sample(key, kind)}"]
    others = section("sslProfile", "name: p", "certFile: x", "caCertFile: y")
    others += section("listener", "port: 1", "sslProfile: p", "saslMechanisms: EXTERNAL")
    if name == "sslProfile":
        others = section("listener", "port: 1", "sslProfile: p", "saslMechanisms: EXTERNAL")
        before = ["name: p"]
    results = []
    for each in (before, [*before, *lines]):
        file.write_text(section(name, *each) + others)
        faults: list[str] = []
        found = Findings()
        source = read_router_conf(file, faults, found)
        blocks = [
            {key: given.value for key, given in block.values.items()}
            for listed in (source.sections, source.arrays)
            for group in listed.values()
            for block in (group if isinstance(group, list) else [group])
        ]
        said = [one.partition(":")[2] for one in (*faults, *found.lost, *found.needless)]
        results.append((blocks, [one.partition(":")[2] for one in said]))
    assert results[0] != results[1], (name, key)


def test_sections_that_nothing_is_made_of_are_named(file: Path) -> None:
    for name in UNREAD:
        _, lost, needless = read(file, section(name, "whatever: x"))
        assert any(each.startswith(f"1: {name}: ") for each in (*lost, *needless)), name


def test_the_form_in_json(tmp_path: Path) -> None:
    file = tmp_path / "router.json"
    file.write_text(
        '[["router", {"id": "A", "defaultDistribution": "closest"}],\n'
        ' ["org.apache.qpid.dispatch.router.config.address",\n  {"prefix": "a", "priority": 3}],\n'
        ' ["listener", {"port": 5673, "authenticatePeer": true}]]\n'
    )
    config = load(file)
    assert config.broker.default_distribution == "closest"
    assert config.distributions[0].priority == 3
    assert config.acceptors[0].port == 5673
    same(file)


def test_routers_of_the_documentation_are_right(file: Path) -> None:
    """Each file in "behind a router": the router takes it, and its links lead to the store."""
    files = blocks_of("routing.md", "\nrouter {")
    found = {}
    routes = []
    for text in files:
        config, _, _ = read(file, text)
        same(file)
        links = [(each.link.is_out, each.link.phase) for each in config.auto_links]
        found[config.broker.name] = links
        routes.append(len(config.link_routes))
        assert Distributions(config.distributions).find("orders").waypoint
    both = [(True, 0), (False, 1)]
    assert found == {"A": both, "B": [], "C": both}
    assert routes == [3, 0, 0]
    (further,) = blocks_of("routing.md", "\nlistener {")
    config, _, _ = read(file, files[0].replace("standalone", "interior") + further)
    assert len(config.acceptors) == 1, "that for routers is none of ours"


def test_brokers_behind_a_router_of_the_documentation_are_right(tmp_path: Path) -> None:
    files = [each for each in blocks_of("routing.md", "toml") if each.startswith("[broker]")]
    names = []
    for text in files:
        path = tmp_path / "broker.toml"
        path.write_text(text)
        config = load(path)
        names.append(config.broker.name)
        assert [each.name for each in config.queues] == ["orders"]
        assert {each.protocol for each in config.acceptors} == {"amqp"}
    assert names == ["store-1", "store-2"]


def test_each_configuration_of_the_documentation_is_right(tmp_path: Path) -> None:
    """With the connectors that it names and does not have."""
    path = tmp_path / "broker.toml"
    blocks = blocks_of("routing.md", "toml")
    assert len(blocks) >= 6
    for text in blocks:
        named = [each for each in ("east", "west") if f'"{each}"' in text]
        missing = [each for each in named if f'name = "{each}"\nurl' not in text]
        lines = (f'[[connector]]\nname = "{each}"\nurl = "amqp://h"\n' for each in missing)
        path.write_text(text + "".join(lines))
        load(path)
