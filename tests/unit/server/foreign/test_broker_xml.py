"""Reading a broker.xml: every piece of the manuals, what is warned of, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from daybook.engine.facts.definitions import QUEUE_ATTRIBUTES
from daybook.engine.settings.setting_keys import BY_NAME
from daybook.engine.settings.settings import Settings
from daybook.server.configuration.config import Config, ConfigError, load
from daybook.server.configuration.config_text import as_toml
from daybook.server.foreign.broker_xml import read_broker_xml
from daybook.server.foreign.findings import Findings
from tests.support.brokers.broker_xml import PIECES, document

ATTRIBUTES = {attribute.key for attribute in QUEUE_ATTRIBUTES} | {"address"}


def read(tmp_path: Path, core: str, **values: Any) -> Config:
    path = tmp_path / "broker.xml"
    path.write_text(document(core))
    return load(path, **values)


def problems(tmp_path: Path, core: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, core)
    return [each.replace(f"{tmp_path}/", "") for each in caught.value.problems]


def warnings(tmp_path: Path, core: str) -> list[str]:
    return [each.replace(f"{tmp_path}/", "") for each in read(tmp_path, core).warnings]


@pytest.mark.parametrize("name", PIECES)
def test_a_piece_of_a_manual_is_in_force(tmp_path: Path, name: str) -> None:
    """A key that does not exist here yet is named by a warning, and works once it exists."""
    piece = PIECES[name]
    config = read(tmp_path, piece.core)
    missing = list(piece.missing)
    queues = {queue.name: queue for queue in config.queues}
    for (queue, key), value in piece.queues.items():
        if key == "address":
            assert queues[queue].address == value
        elif key in ATTRIBUTES:
            assert getattr(queues[queue].definition, key.replace("-", "_")) == value
        else:
            missing.append(key)
    settings = Settings(config.address_settings, config.wildcards.syntax)
    for (address, key), value in piece.settings.items():
        if key in BY_NAME:
            found = {row[0]: row[1] for row in settings.explain(address)}
            assert found[key] == value, (address, key)
        else:
            missing.append(key.replace("default-last-value-queue", "last-value-queue"))
    addresses = {address.name: address.routing_types for address in config.addresses}
    for address, types in piece.addresses.items():
        assert addresses[address] == types
    for field, value in piece.broker.items():
        assert getattr(config.broker, field) == value
    for key in missing:
        told = (*config.warnings, *config.foreign.needless)
        assert any(key in each for each in told), (key, told)
    if not missing:
        assert config.warnings == config.foreign.needless == ()
    assert config.broker.name == "piece"


@pytest.mark.parametrize("name", PIECES)
def test_a_piece_is_the_same_as_toml(tmp_path: Path, name: str) -> None:
    path = tmp_path / "broker.xml"
    path.write_text(document(PIECES[name].core))
    found = Findings()
    source = read_broker_xml(path, [], found)
    text = as_toml(source, "broker.xml", found.lost, found.needless)
    converted = tmp_path / "broker.toml"
    converted.write_text(text)
    config = load(path)
    again = load(converted)
    for field in config.__struct_fields__:
        if field not in ("warnings", "foreign"):
            assert getattr(again, field) == getattr(config, field), text


def acceptor(url: str) -> str:
    return f'<acceptors>\n<acceptor name="artemis">{url}</acceptor>\n</acceptors>'


def test_an_acceptor_has_its_protocols_and_their_options(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        acceptor(
            "tcp://0.0.0.0:61616?protocols=CORE,AMQP,STOMP;anycastPrefix=anycast://,jms.queue.;"
            "multicastPrefix=/topic/,/queue/,multicast://;connectionsAllowed=7;amqpCredits=77;"
            "stompMaxHeaderSize=5000;amqpMinLargeMessageSize=4096;stompMinLargeMessageSize=2048;"
            "amqpLowCredits=30"
        ),
    )
    (found,) = config.acceptors
    assert (found.name, found.host, found.port) == ("artemis", "0.0.0.0", 61616)
    assert list(found.speaks) == ["amqp", "stomp"]
    for options in found.speaks.values():
        assert options["anycast-prefix"] == ("anycast://", "jms.queue.")
        assert options["multicast-prefix"] == ("/topic/", "multicast://")
        assert options["min-large-message-size"] == 2048
    assert found.max_connections == 7
    assert found.speaks["amqp"]["credit"] == 77
    assert found.speaks["stomp"]["max-header-length"] == 5000
    texts = " ".join(config.warnings)
    assert "clients of CORE cannot connect; Daybook speaks STOMP and AMQP 1.0" in texts
    assert "stompMinLargeMessageSize: min-large-message-size was set before" in texts
    assert any("amqpLowCredits" in each for each in config.foreign.needless)


def test_an_acceptor_of_stomp_alone(tmp_path: Path) -> None:
    url = "tcp://0.0.0.0:61613?protocols=STOMP;multicastPrefix=/topic/,multicast://;amqpCredits=77"
    config = read(tmp_path, acceptor(url))
    (found,) = config.acceptors
    assert found.protocol == "stomp"
    assert found.options["multicast-prefix"] == ("multicast://",)
    assert any("amqpCredits" in each for each in config.foreign.needless)


def test_an_acceptor_without_protocols_speaks_all(tmp_path: Path) -> None:
    (found,) = read(tmp_path, acceptor("tcp://0.0.0.0:61616")).acceptors
    assert list(found.speaks) == ["stomp", "amqp"]
    assert "queue://" in found.speaks["amqp"]["anycast-prefix"]
    assert found.speaks["stomp"]["anycast-prefix"] == ()


@pytest.mark.parametrize("prefix", ["anycast", "multicast"])
def test_prefixes_of_an_acceptor_that_is_not_opened_are_those_of_flags(
    tmp_path: Path, prefix: str
) -> None:
    url = f"tcp://0.0.0.0:61616?protocols=CORE;{prefix}Prefix={prefix}://"
    config = read(tmp_path, acceptor(url), listen=["stomp://127.0.0.1:0"])
    (found,) = config.acceptors
    assert found.port == 0
    assert found.options[f"{prefix}-prefix"] == (f"{prefix}://",)
    (warning,) = config.warnings
    assert "broker.xml:6: <acceptor> 'artemis' is not opened" in warning
    assert "(CORE)" in warning


def test_a_flag_adds_an_acceptor(tmp_path: Path) -> None:
    core = acceptor("tcp://localhost:61613?protocols=STOMP")
    config = read(tmp_path, core, listen=["stomp://127.0.0.1:0"])
    assert [(each.host, each.port) for each in config.acceptors] == [
        ("localhost", 61613), ("127.0.0.1", 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("tcp://h:1?sslEnabled=true;keyStorePath=/a/broker.jks", "is a store of Java (JKS)"),
        ("tcp://h:1?sslEnabled=true", "openssl pkcs12"),
        ("vm://0:1", "vm:// is not supported"),
    ],
)
def test_acceptors_that_are_not_opened(tmp_path: Path, url: str, text: str) -> None:
    assert any(text in each for each in warnings(tmp_path, acceptor(url)))


def test_an_acceptor_with_tls(tmp_path: Path) -> None:
    url = (
        "tcp://0.0.0.0:61617?sslEnabled=true;keyStorePath=/a/server.pem;keyStoreType=PEM;"
        "needClientAuth=true;trustStorePath=/a/ca.crt;enabledProtocols=TLSv1.1,TLSv1.3;"
        "enabledCipherSuites=TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    )
    (found,) = read(tmp_path, acceptor(url)).acceptors
    assert (found.tls, found.certificate, found.key) == (True, "/a/server.pem", "")
    assert (found.client_certificates, found.client_ca) == ("required", "/a/ca.crt")
    assert (found.tls_min_version, found.ciphers) == ("1.3", "ECDHE-RSA-AES128-GCM-SHA256")
    assert any("before TLS 1.2" in each for each in warnings(tmp_path, acceptor(url)))


def test_an_acceptor_without_tls_is_opened_with_a_warning(tmp_path: Path) -> None:
    url = "tcp://0.0.0.0:61613?protocols=STOMP"
    assert read(tmp_path, acceptor(url)).acceptors[0].allow_cleartext
    assert any("without TLS" in each for each in warnings(tmp_path, acceptor(url)))
    with pytest.raises(ConfigError, match="needs TLS"):
        read(tmp_path, acceptor(f"{url};allowCleartext=false"))


def test_wildcards_and_literal_matches(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        "<wildcard-addresses><enabled>true</enabled><delimiter>,</delimiter>"
        "<any-words>@</any-words><single-word>$</single-word></wildcard-addresses>"
        "<literal-match-markers>()</literal-match-markers>"
        '<address-settings><address-setting match="news,$"><expiry-delay>1</expiry-delay>'
        "</address-setting></address-settings>",
    )
    assert config.wildcards.syntax.text == ",@$()"
    settings = Settings(config.address_settings, config.wildcards.syntax)
    assert settings.resolve("news,europe").expiry_delay == 1
    assert settings.resolve("news,europe,sport").expiry_delay == -1


def test_a_divert(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        '<diverts><divert name="d"><address>a</address>'
        "<forwarding-address>b, c</forwarding-address>"
        """<filter string="size > 3"/><exclusive>true</exclusive>
        <routing-type>MULTICAST</routing-type><routing-name>r</routing-name><transformer>
        <class-name>org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer
        </class-name><property key="x" value="y"/></transformer></divert>"""
        '<divert name="e"><address>a</address><forwarding-address>b</forwarding-address>'
        "<transformer><class-name>com.example.Mine</class-name></transformer></divert></diverts>",
    )
    first, second = config.diverts
    assert first.forwarding_addresses == ("b", "c")
    assert (first.exclusive, first.filter, first.routing_type) == (True, "size > 3", "multicast")
    assert first.add_properties == ("x=y",)
    assert second.routing_type == "strip"
    texts = " ".join(config.warnings)
    assert "<routing-name> in divert 'd'" in texts
    assert "com.example.Mine of divert 'e' is code of Java" in texts


def test_values_of_the_broker(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        "<global-max-size>100M</global-max-size>\n<max-disk-usage>95</max-disk-usage>\n"
        "<id-cache-size>7</id-cache-size>\n<transaction-timeout>${tx:5}000</transaction-timeout>\n"
        "<global-max-messages>10</global-max-messages>\n<critical-analyzer>true</critical-analyzer>",
    )
    assert config.broker.global_max_size == 100 << 20
    assert config.broker.max_disk_usage == 95
    assert config.broker.transaction_timeout == 5000
    assert config.address_settings["#"]["id-cache-size"] == 7
    assert config.warnings == ()
    (needless,) = config.foreign.needless
    assert "broker.xml:10: <critical-analyzer>: the broker watches" in needless


def test_sizes_of_addresses_may_have_a_unit_of_artemis(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        '<address-settings><address-setting match="a"><max-size-bytes>10MB</max-size-bytes>'
        "<page-size-bytes>64k</page-size-bytes><address-full-policy>block</address-full-policy>"
        "</address-setting></address-settings>",
    )
    assert config.address_settings["a"] == {
        "max-size-bytes": 10 << 20, "page-size-bytes": 64 << 10, "address-full-policy": "BLOCK",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("core", "texts"),
    [
        ("<securty-settings/>", ["broker.xml:5: <securty-settings> is not supported"]),
        (
            '<address-settings>\n<address-setting match="a">\n<page-max-cache-size>5'
            "</page-max-cache-size></address-setting></address-settings>",
            ["broker.xml:7: <page-max-cache-size> in address-setting 'a' is not supported"],
        ),
        (
            '<addresses><address name="a"><anycast><queue name="q" wrong="1">\n<user>u</user>'
            "</queue></anycast></address></addresses>",
            ["broker.xml:5: wrong of queue 'q'", "broker.xml:6: user of queue 'q'"],
        ),
    ],
)
def test_what_is_not_supported_is_named_with_its_line(
    tmp_path: Path, core: str, texts: list[str]
) -> None:
    found = warnings(tmp_path, core)
    assert [each.startswith(text) for each, text in zip(found, texts, strict=True)] == [
        True for _ in texts
    ], found


@pytest.mark.parametrize(
    ("core", "text"),
    [
        (
            '<address-settings><address-setting match="a">\n<max-delivery-attempts>many'
            "</max-delivery-attempts></address-setting></address-settings>",
            "broker.xml:6: address-setting: max-delivery-attempts is 'many'; it must be a whole",
        ),
        (
            '<address name="a"><anycast><queue name="q" max-consumers="x"/></anycast></address>',
            'broker.xml:5: queue.max-consumers is "x"; it must be a whole number',
        ),
        ('<address name="a?b"><anycast/></address>', "broker.xml:5: address.name is"),
        (acceptor("nonsense"), "broker.xml:6: acceptor 'artemis' is 'nonsense'; it must be like"),
        ("<global-max-size>big</global-max-size>", "broker.xml:5: global-max-size is"),
        (
            '<diverts><divert name="d"><address>a</address></divert></diverts>',
            'broker.xml:5: divert "d": it must have 1 to',
        ),
        ("<name>", "broker.xml:6: is not valid XML"),
        ('<xi:include href="other.xml"/>', "broker.xml:5: <xi:include>: other files are not"),
        ("<name>${who}</name>", "broker.xml:5: ${who} has no default"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, core: str, text: str) -> None:
    found = problems(tmp_path, core)
    assert any(each.startswith(text) for each in found), found
