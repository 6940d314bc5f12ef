"""The configuration of Apollo: what becomes an acceptor, and that nothing is ignored in silence."""

from pathlib import Path

import pytest

from daybook.server.configuration.config import ConfigError, load
from daybook.server.configuration.config_text import as_toml
from daybook.server.foreign.broker_xml import read_broker_xml
from daybook.server.foreign.findings import Findings

DEFAULT = """<?xml version="1.0"?>
<broker xmlns="http://activemq.apache.org/schema/activemq/apollo">
  <notes>The configuration that an instance begins with.</notes>
  <log_category console="console"/>
  <authentication domain="apollo"/>
  <virtual_host id="mybroker">
    <host_name>mybroker</host_name>
    <host_name>localhost</host_name>
    <access_rule allow="users" action="connect"/>
    <leveldb_store directory="${apollo.base}/data"/>
  </virtual_host>
  <virtual_host id="shop"/>
  <virtual_host id="a b"/>
  <connector id="tcp" bind="tcp://0.0.0.0:61613" connection_limit="2000"/>
  <connector id="tls" bind="tls://0.0.0.0:61614"/>
  <connector id="ws" bind="ws://127.0.0.1:61623?binary=false" enabled="true"/>
  <connector id="off" bind="tcp://127.0.0.1:61615" enabled="false"/>
  <connector id="mqtt" bind="tcp://127.0.0.1:1883" protocol="mqtt"/>
  <connector id="udp" bind="udp://127.0.0.1:61616"/>
  <key_storage file="${apollo.base}/etc/keystore" password="password"/>
</broker>
"""
STOMP = """<broker>
<connector id="tcp" bind="tcp://127.0.0.1:61613">
<stomp {attributes}>{inner}</stomp>
</connector>
</broker>
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "apollo.xml"


def warnings(file: Path) -> list[str]:
    findings = Findings()
    problems: list[str] = []
    read_broker_xml(file, problems, findings)
    assert not problems
    return [each.removeprefix(f"{file}:") for each in findings.lost]


def test_connectors_become_acceptors_and_all_else_is_named(file: Path) -> None:
    file.write_text(DEFAULT)
    config = load(file)
    assert [(each.name, each.host, each.port) for each in config.acceptors] == [
        ("tcp", "0.0.0.0", 61613),
        ("ws", "127.0.0.1", 61623),
    ]
    assert config.acceptors[0].max_connections == 2000
    assert config.acceptors[0].options["percent-encoding"] is True
    assert config.acceptors[0].options["buffer-size"] == 0
    hosts = [(each.name, each.host_names) for each in config.virtual_hosts]
    assert hosts == [("default", ("mybroker", "localhost")), ("shop", ())]
    said = warnings(file)
    for number, text in {
        4: "<log_category> in <broker> is not converted",
        5: "<authentication> in <broker>",
        9: "<access_rule> in <virtual_host> 'mybroker'",
        10: "<leveldb_store> in <virtual_host> 'mybroker'",
        13: "<virtual_host> 'a b' is not converted: its id is not a name",
        15: "<connector> 'tls' is not opened: tls:// needs a certificate in PEM format",
        16: "?binary=false in bind of <connector> 'ws'",
        17: "<connector> 'off' is not opened: it is not enabled",
        18: "<connector> 'mqtt' is not opened: protocol is mqtt",
        19: "<connector> 'udp' is not opened: udp:// is not supported",
        20: "<key_storage> in <broker>",
    }.items():
        assert any(each.startswith(f"{number}: {text}") for each in said), text
    assert len(said) == 11


@pytest.mark.parametrize(
    ("attributes", "key", "value"),
    [
        ('max_header_length="10k"', "max-header-length", 10 << 10),
        ('max_headers="7"', "max-headers", 7),
        ('max_data_length="100M"', "max-data-length", 100 << 20),
        ('buffer_size="64k"', "buffer-size", 64 << 10),
        ('die_delay="2000"', "die-delay", 2000),
        ('queue_prefix="q/"', "queue-prefix", "q/"),
        ('topic_prefix="t/"', "topic-prefix", "t/"),
        ('path_separator="/"', "path-separator", "/"),
        ('destination_separator=";"', "destination-separator", ";"),
        ('any_child_wildcard="+"', "any-child-wildcard", "+"),
        ('any_descendant_wildcard=">"', "any-descendant-wildcard", ">"),
        ('regex_wildcard_start="["', "regex-wildcard-start", "["),
        ('regex_wildcard_end="]"', "regex-wildcard-end", "]"),
        ('add_user_header="user"', "add-user-header", "user"),
        ('add_timestamp_header="at"', "add-timestamp-header", "at"),
        ('add_redeliveries_header="again"', "add-redeliveries-header", "again"),
    ],
)
def test_attributes_of_stomp(file: Path, attributes: str, key: str, value: object) -> None:
    file.write_text(STOMP.format(attributes=attributes, inner=""))
    config = load(file)
    assert config.acceptors[0].options[key] == value
    assert not warnings(file)


def test_nested_headers_of_users(file: Path) -> None:
    inner = (
        '<add_user_header separator=",">user</add_user_header>'
        '<add_user_header kind="org.apache.activemq.jaas.GroupPrincipal">group</add_user_header>'
        '<add_user_header kind="user">login</add_user_header>'
        '<add_user_header kind="X509">cert</add_user_header>'
    )
    file.write_text(STOMP.format(attributes="", inner=inner))
    assert load(file).acceptors[0].options["add-user-headers"] == (
        "user;kind=*;separator=,",
        "group;kind=role",
        "login;kind=user",
    )
    assert warnings(file) == ["3: <add_user_header> of kind 'X509' is not converted"]


def test_what_is_converted_means_the_same(file: Path) -> None:
    file.write_text(DEFAULT)
    problems: list[str] = []
    text = as_toml(read_broker_xml(file, problems, Findings()), file.name)
    toml = file.with_suffix(".toml")
    toml.write_text(text)
    assert load(toml).acceptors == load(file).acceptors
    assert load(toml).virtual_hosts == load(file).virtual_hosts


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("tcp://127.0.0.1:61613", "nonsense", ":2: bind of <connector> 'tcp' is 'nonsense'"),
        ("<stomp ", '<stomp max_headers="many" ', ":3: acceptor.max-headers"),
        ("<stomp ", '<stomp path_separator="," ', "neither may contain the other"),
    ],
)
def test_values_that_are_wrong_name_their_line(
    file: Path, old: str, new: str, problem: str
) -> None:
    file.write_text(STOMP.format(attributes="", inner="").replace(old, new))
    with pytest.raises(ConfigError, match=r".") as caught:
        load(file)
    assert any(problem in each for each in caught.value.problems), caught.value.problems


def test_a_file_without_a_connector_says_so(file: Path) -> None:
    file.write_text("<broker/>")
    assert warnings(file) == ["1: no <connector> could be converted; clients need an [[acceptor]]"]


def test_placeholders_of_artemis_stay_errors(file: Path) -> None:
    file.write_text("<configuration><core><name>${a.b}</name></core></configuration>")
    with pytest.raises(ConfigError, match="has no default"):
        load(file)
