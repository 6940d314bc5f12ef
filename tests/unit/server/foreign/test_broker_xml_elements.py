"""Every element of a broker.xml is in force, refused, or named by a warning; none is passed over.

The names are those of the reference of Artemis, each with a value that is not its default. Elements
of everything in random places are drawn on top of that.
"""

from pathlib import Path
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.server.configuration.config import Config, ConfigError, load
from tests.support.brokers.broker_xml import document


def listed(text: str) -> list[str]:
    """The entries NAME=VALUE of a text."""
    return text.split()


CORE: Final = listed(
    """
acceptors=x activation-sequence-access-path=x address-queue-scan-period=1234
amqp-use-core-subscription-naming=true allow-failback=false
async-connection-execution-enabled=false authentication-cache-size=5 authorization-cache-size=5
bindings-directory=x bridges=x broadcast-groups=x broker-connections=x broker-plugins=x
check-for-live-server=true cluster-connections=x cluster-password=x cluster-user=x
configuration-file-refresh-period=6000 configuration-name=x connection-ttl-check-interval=1
connection-ttl-override=1 connectors=x create-bindings-dir=false create-journal-dir=false
critical-analyzer=false critical-analyzer-check-period=1 critical-analyzer-policy=LOG
critical-analyzer-timeout=1 discovery-groups=x disk-scan-period=1234 federations=x
global-max-messages=77 global-max-size=10M graceful-shutdown-enabled=true
graceful-shutdown-timeout=1 grouping-handler=x ha-policy=x id-cache-size=77
internal-naming-prefix=x jmx-domain=x jmx-management-enabled=false jmx-use-broker-name=false
journal-buffer-size=1 journal-buffer-timeout=1 journal-compact-min-files=1
journal-compact-percentage=1 journal-datasync=false journal-device-block-size=1
journal-directory=x journal-file-open-timeout=1 journal-file-size=1
journal-lock-acquisition-timeout=1 journal-max-atticfiles=1 journal-max-io=1 journal-min-files=1
journal-pool-files=1 journal-retention-directory=x journal-sync-non-transactional=false
journal-sync-transactional=false journal-type=NIO large-messages-directory=x
log-journal-write-rate=true logging-delegate-factory-class-name=x management-address=x
management-message-rbac=true management-notification-address=x mask-password=true
max-disk-usage=55 max-redelivery-records=3 memory-measure-interval=1 memory-warning-threshold=1
message-counter-enabled=true message-counter-max-day-history=1 message-counter-sample-period=1
message-expiry-scan-period=1234 message-expiry-thread-priority=1 metrics=x metrics-plugin=x
min-disk-free=100M mirror-ack-manager-queue-attempts=1 network-check-NIC=x
network-check-URL-list=x network-check-list=x network-check-period=1
network-check-ping6-command=x network-check-ping-command=x network-check-timeout=1
node-manager-lock-directory=x outgoing-thread-pool-max-size=1 page-max-concurrent-io=1
page-sync-timeout=1 paging-directory=x password-codec=x perf-blast-pages=1
persist-delivery-count-before-delivery=false persist-id-cache=false persistence-enabled=false
populate-validated-user=true queues=x read-whole-page=true reject-empty-validated-user=true
remoting-incoming-interceptors=x remoting-outgoing-interceptors=x resolve-protocols=false
resource-limit-settings=x run-sync-speed-test=true scheduled-thread-pool-max-size=1
security-enabled=false security-invalidation-interval=1 security-manager=x security-settings=x
server-dump-interval=1 store=x suppress-session-notifications=true system-property-prefix=x
temporary-queue-namespace=x thread-pool-max-size=1 transaction-timeout=1234
transaction-timeout-scan-period=1234 uuid-namespace=x verify-paging=true
view-permission-method-match-pattern=x wild-card-routing-enabled=false wildcard-addresses=x
literal-match-markers=()
"""
)
SETTINGS: Final = listed(
    """
address-full-policy=DROP auto-create-addresses=false auto-create-dead-letter-resources=true
auto-create-expiry-resources=true auto-create-jms-queues=false auto-create-jms-topics=false
auto-create-queues=false auto-delete-addresses=false auto-delete-addresses-delay=5
auto-delete-addresses-skip-usage-check=true auto-delete-created-queues=true
auto-delete-jms-queues=false auto-delete-jms-topics=false auto-delete-queues=false
auto-delete-queues-delay=5 auto-delete-queues-message-count=5
auto-delete-queues-skip-usage-check=true config-delete-addresses=FORCE
config-delete-diverts=FORCE config-delete-queues=FORCE dead-letter-address=x
dead-letter-queue-prefix=x dead-letter-queue-suffix=x default-address-routing-type=ANYCAST
default-consumer-window-size=5 default-consumers-before-dispatch=5
default-delay-before-dispatch=5 default-exclusive-queue=true default-group-buckets=5
default-group-first-key=x default-group-rebalance=true
default-group-rebalance-pause-dispatch=true default-last-value-key=x
default-last-value-queue=true default-max-consumers=5 default-non-destructive=true
default-purge-on-no-consumers=true default-queue-routing-type=ANYCAST default-ring-size=5
disk-full-policy=FAIL enable-ingress-timestamp=true enable-metrics=false expiry-address=x
expiry-delay=5 expiry-queue-prefix=x expiry-queue-suffix=x id-cache-size=5
initial-queue-buffer-size=8 last-value-queue=true management-browse-page-size=5
management-message-attribute-size-limit=5 max-delivery-attempts=5 max-expiry-delay=5
max-read-page-bytes=5 max-read-page-messages=5 max-redelivery-delay=5 max-size-bytes=5000
max-size-bytes-reject-threshold=5 max-size-messages=5 message-counter-history-day-limit=5
min-expiry-delay=5 no-expiry=true page-full-policy=DROP page-limit-bytes=5 page-limit-messages=5
page-max-cache-size=5 page-size-bytes=5000 prefetch-page-bytes=5 prefetch-page-messages=5
queue-prefetch=5 redelivery-collision-avoidance-factor=0.5 redelivery-delay=5
redelivery-delay-multiplier=2.0 redistribution-delay=5 retroactive-message-count=5
send-to-dla-on-no-route=true slow-consumer-check-period=7 slow-consumer-policy=KILL
slow-consumer-threshold=5 slow-consumer-threshold-measurement-unit=MESSAGES_PER_HOUR
"""
)
QUEUE: Final = listed(
    """
auto-delete=true auto-delete-delay=5 auto-delete-message-count=5 configuration-managed=false
consumer-priority=5 consumers-before-dispatch=5 delay-before-dispatch=5 durable=false
enabled=false exclusive=true filter=a=1 group-buckets=5 group-first-key=x group-rebalance=true
group-rebalance-pause-dispatch=true id=5 internal=true last-value=true last-value-key=x
max-consumers=5 non-destructive=true purge-on-no-consumers=true ring-size=5 transient=true
user=x
"""
)
DIVERT: Final = listed(
    """
exclusive=true filter=a=1 routing-name=x routing-type=ANYCAST transformer=x
transformer-class-name=org.example.Mine
"""
)
WILDCARDS: Final = listed(
    """
any-words=@ delimiter=, enabled=false routing-enabled=false single-word=+
"""
)
ACCEPTOR: Final = listed(
    """
actorThresholdBytes=1 amqpCredits=1 amqpDuplicateDetection=false amqpIdleTimeout=1
amqpLowCredits=1 amqpMaxFrameSize=1 amqpMinLargeMessageSize=1
amqpTreatRejectAsUnmodifiedDeliveryFailed=true anycastPrefix=q: autoStart=false backlog=1
batchDelay=1 connectionTtl=1 connectionTtlMax=1 connectionTtlMin=1 connectionsAllowed=5
crlPath=x defaultMqttSessionExpiryInterval=1 directDeliver=false disableStompServerHeader=true
enabledCipherSuites=x handshake-timeout=1 heartBeatToConnectionTtlModifier=3 httpEnabled=true
keyStorePath=x localAddress=x login-config-scope=x maxInactivityDuration=1 multicastPrefix=t:
needClientAuth=true nettyThreads=1 nioRemotingThreads=1 proxyProtocolEnabled=true
remotingThreads=1 saslMechanisms=PLAIN securityDomain=x sslEnabled=true
stompConsumerWindowSize=1 stompEnableMessageId=true stompMaxFramePayloadLength=1
stompMaxHeaderSize=2000 stompMinLargeMessageSize=200000 supportAdvisory=false
suppressInternalManagementObjects=false tcpNoDelay=false tcpReceiveBufferSize=1
tcpSendBufferSize=1 trustStorePath=x useEpoll=false useInvm=true useKQueue=false useNio=true
webSocketCompressionSupported=true
"""
)


def tag(entry: str) -> str:
    name, _, value = entry.partition("=")
    return f"<{name}>{value}</{name}>"


def in_queue(inner: str, attributes: str = "") -> str:
    queue = f'<queue name="q" {attributes}>{inner}</queue>'
    return f'<addresses><address name="a"><anycast>{queue}</anycast></address></addresses>'


def in_divert(inner: str) -> str:
    targets = "<address>a</address><forwarding-address>b</forwarding-address>"
    return f'<diverts><divert name="d">{targets}{inner}</divert></diverts>'


def in_setting(inner: str) -> str:
    return (
        f'<address-settings><address-setting match="a">{inner}</address-setting></address-settings>'
    )


def in_acceptor(parameter: str) -> str:
    url = f"tcp://0.0.0.0:61613?protocols=STOMP;{parameter}"
    return f'<acceptors><acceptor name="x">{url}</acceptor></acceptors>'


def in_wildcards(inner: str) -> str:
    return f"<wildcard-addresses>{inner}</wildcard-addresses>"


def attribute(entry: str) -> str:
    name, _, value = entry.partition("=")
    return in_queue("", f'{name}="{value}"')


CASES: Final = (
    [(entry, tag(entry), "") for entry in CORE]
    + [(entry, in_setting(tag(entry)), in_setting("")) for entry in SETTINGS]
    + [(entry, in_queue(tag(entry)), in_queue("")) for entry in QUEUE]
    + [(entry, attribute(entry), in_queue("")) for entry in QUEUE]
    + [(entry, in_divert(tag(entry)), in_divert("")) for entry in DIVERT]
    + [(entry, in_wildcards(tag(entry)), in_wildcards("")) for entry in WILDCARDS]
    + [(entry, in_acceptor(entry), in_acceptor("")) for entry in ACCEPTOR]
)


def read(path: Path, core: str) -> tuple[Config | None, list[str]]:
    """The meaning of a file, and all reports about it."""
    path.write_text(document(core))
    try:
        config = load(path)
    except ConfigError as error:
        return None, error.problems
    return msgspec.structs.replace(config, warnings=()), list(config.warnings)


@pytest.mark.parametrize(("entry", "core", "without"), CASES)
def test_it_is_in_force_or_named(tmp_path: Path, entry: str, core: str, without: str) -> None:
    name, _, value = entry.partition("=")
    config, said = read(tmp_path / "broker.xml", core)
    plain, _ = read(tmp_path / "broker.xml", without)
    named = [text for text in said if name in text or (name.startswith("transf") and value in text)]
    assert named or (config is not None and config != plain), said
    assert not named or config == plain or config is None or entry == "sslEnabled=true", named


@pytest.mark.parametrize(
    ("core", "named"),
    [
        ('<address name="a" colour="red"><anycast/></address>', "colour of <address>"),
        ('<address name="a"><anycast size="1"/></address>', "size of <anycast>"),
        ('<address name="a">text<anycast/></address>', "the text 'text' in <address>"),
        ("<addresses>lost</addresses>", "the text 'lost' in <addresses>"),
        (in_queue("<filter string='a=1' kind='x'/>"), "kind of <filter>"),
        (in_queue("<durable>true<deep/></durable>"), "<deep> in <durable>"),
        (in_setting("<max-delivery-attempts unit='s'>3</max-delivery-attempts>"), "unit of"),
        (
            in_setting("<max-delivery-attempts>3</max-delivery-attempts>" * 2),
            "<max-delivery-attempts> is there twice",
        ),
        (in_divert("<exclusive>true</exclusive>" * 2), "<exclusive> is there twice"),
        ("<global-max-size>1M</global-max-size>" * 2, "<global-max-size> is there twice"),
        (in_wildcards("<delimiter>,</delimiter>" * 2), "<delimiter> is there twice"),
        ("<max-disk-usage when='now'>50</max-disk-usage>", "when of <max-disk-usage>"),
        ("<id-cache-size>5<x/></id-cache-size>", "<x> in <id-cache-size>"),
        ("<literal-match-markers a='b'>()</literal-match-markers>", "a of <literal-match"),
        ('<acceptor name="a" x="y">tcp://0.0.0.0:1</acceptor>', "x of <acceptor>"),
        (
            in_divert("<transformer><class-name>org.example.Mine</class-name></transformer>"),
            "org.example.Mine of divert 'd' is code of Java",
        ),
        (
            in_divert(
                "<transformer><class-name>x.AddHeadersTransformer</class-name><value/>"
                "<property key='k' value='v' type='t'/></transformer>"
            ),
            "type of <property>",
        ),
    ],
)
def test_what_stands_beside_an_element_is_named(tmp_path: Path, core: str, named: str) -> None:
    _, said = read(tmp_path / "broker.xml", core)
    assert any(named in text for text in said), said


@given(
    st.sampled_from(["", "core", "setting", "queue", "divert", "wildcards"]),
    st.text("abcdefgh-", min_size=1, max_size=8).map(lambda text: f"zz{text}"),
)
def test_an_unknown_element_is_named_wherever_it_is(
    tmp_path_factory: pytest.TempPathFactory, place: str, name: str
) -> None:
    where = {
        "setting": in_setting, "queue": in_queue, "divert": in_divert, "wildcards": in_wildcards,
    }  # fmt: skip
    core = where.get(place, str)(f"<{name}>1</{name}>")
    _, said = read(tmp_path_factory.mktemp("xml") / "broker.xml", core)
    assert any(name in text for text in said)
