"""Pieces of a broker.xml like those in the manuals of Artemis, and a file around one.

Each has the values that its text promises: of queues as (queue, key), of address settings as
(address, key), and of the broker by key.
"""

from typing import Any, Final

import msgspec

HEAD: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'


class Piece(msgspec.Struct, frozen=True):
    """The content of <core>, and the settings that must be in force."""

    core: str
    queues: dict[tuple[str, str], Any] = {}
    settings: dict[tuple[str, str], Any] = {}
    addresses: dict[str, tuple[str, ...]] = {}
    broker: dict[str, Any] = {}
    missing: tuple[str, ...] = ()


def document(core: str) -> str:
    """Return a whole file with this in <core>."""
    return (
        f'{HEAD}<configuration xmlns="urn:activemq">\n'
        f'<core xmlns="urn:activemq:core">\n<name>piece</name>\n{core}\n</core>\n</configuration>\n'
    )


def _address(name: str, routing_type: str, *queues: str) -> str:
    inner = "".join(queues)
    return f'<address name="{name}"><{routing_type}>{inner}</{routing_type}></address>'


def _setting(match: str, **values: Any) -> str:
    inner = "".join(
        f"<{key.replace('_', '-')}>{value}</{key.replace('_', '-')}>"
        for key, value in values.items()
    )
    return f'<address-setting match="{match}">{inner}</address-setting>'


def _settings(*settings: str) -> str:
    return f"<address-settings>{''.join(settings)}</address-settings>"


def _types(name: str, *types: str) -> dict[str, tuple[str, ...]]:
    return {name: types}


_Q1_Q2: Final = '<queue name="q1" />\n<queue name="q2" />'
_DURABLE: Final = "<durable>true</durable>"

PIECES: Final[dict[str, Piece]] = {
    "point to point": Piece(
        _address("durable", "anycast", '<queue name="durable"/>'),
        {("durable", "routing-type"): "anycast", ("durable", "address"): "durable"},
        addresses=_types("durable", "anycast"),
    ),
    "publish and subscribe": Piece(
        '<address name="topic.foo"><multicast/></address>',
        addresses=_types("topic.foo", "multicast"),
    ),
    "publish to two queues": Piece(
        _address(
            "topic.foo", "multicast",
            '<queue name="client123.topic.foo"/>', '<queue name="client456.topic.foo"/>',
        ),
        {
            ("client123.topic.foo", "routing-type"): "multicast",
            ("client456.topic.foo", "address"): "topic.foo",
        },
    ),
    "two queues": Piece(
        _address("address.foo", "anycast", _Q1_Q2),
        {("q1", "address"): "address.foo", ("q2", "address"): "address.foo"},
    ),
    "both routing types": Piece(
        '<address name="foo.orders"><anycast><queue name="orders"/></anycast>'
        "<multicast/></address>",
        {("orders", "routing-type"): "anycast"},
        addresses=_types("foo.orders", "anycast", "multicast"),
    ),
    "durable subscription": Piece(
        _address("durable.foo", "multicast", f'<queue name="q1">{_DURABLE}</queue>'),
        {("q1", "durable"): True, ("q1", "routing-type"): "multicast"},
    ),
    "two durable subscriptions": Piece(
        _address(
            "non.shared.durable.foo", "multicast",
            f'<queue name="orders1">{_DURABLE}</queue>',
            f'<queue name="orders2">{_DURABLE}</queue>',
        ),
        {("orders1", "durable"): True, ("orders2", "durable"): True},
    ),
    "subscriptions that are not shared": Piece(
        _address(
            "non.shared.durable.foo", "multicast",
            f'<queue name="orders1" max-consumers="1">{_DURABLE}</queue>',
            f'<queue name="orders2" max-consumers="1">{_DURABLE}</queue>',
        ),
        {("orders1", "max-consumers"): 1, ("orders2", "max-consumers"): 1},
    ),
    "purge on no consumers": Piece(
        _address(
            "non.durable.foo", "multicast", '<queue name="orders1" purge-on-no-consumers="true"/>'
        ),
        {("orders1", "purge-on-no-consumers"): True},
    ),
    "full names": Piece(
        f"<addresses>{_address('foo', 'anycast', _Q1_Q2)}</addresses>",
        {("q1", "address"): "foo"},
    ),
    "sharded, begun": Piece(
        '<addresses><address name="sharded"></address></addresses>',
        addresses=_types("sharded", "anycast"),
    ),
    "sharded": Piece(
        "<addresses>"
        + _address("sharded", "anycast", _Q1_Q2, '<queue name="q3" />')
        + "</addresses>",
        {("q3", "address"): "sharded", ("q3", "routing-type"): "anycast"},
    ),
    "last value key": Piece(
        _address(
            "my.address", "multicast", '<queue name="prices1" last-value-key="stock_ticker"/>'
        ),
        {("prices1", "last-value-key"): "stock_ticker"},
    ),
    "last value": Piece(
        _address("my.address", "multicast", '<queue name="prices1" last-value="true"/>'),
        {("prices1", "last-value"): True},
    ),
    "last value by setting": Piece(
        _settings(_setting("lastValueQueue", default_last_value_key="stock_ticker")),
        settings={("lastValueQueue", "default-last-value-key"): "stock_ticker"},
    ),
    "last value, non-destructive": Piece(
        _address(
            "my.address", "multicast",
            '<queue name="orders1" last-value-key="stock_ticker" non-destructive="true" />',
        ),
        {("orders1", "last-value-key"): "stock_ticker", ("orders1", "non-destructive"): True},
    ),
    "non-destructive by setting": Piece(
        _settings(
            _setting(
                "lastValueQueue", default_last_value_key="stock_ticker ",
                default_non_destructive="true",
            )
        ),
        settings={
            ("lastValueQueue", "default-last-value-key"): "stock_ticker",
            ("lastValueQueue", "default-non-destructive"): True,
        },
    ),
    "twenty consumers": Piece(
        "<addresses>"
        + _address("foo", "anycast", '<queue name="q3" max-consumers="20"/>')
        + "</addresses>",
        {("q3", "max-consumers"): 20},
    ),
    "one consumer": Piece(
        _address("foo", "anycast", '<queue name="q3" max-consumers="1"/>'),
        {("q3", "max-consumers"): 1},
    ),
    "any number of consumers": Piece(
        _address("foo", "anycast", '<queue name="q3" max-consumers="-1"/>'),
        {("q3", "max-consumers"): -1},
    ),
    "exclusive": Piece(
        _address("foo.bar", "multicast", '<queue name="orders1" exclusive="true"/>'),
        {("orders1", "exclusive"): True},
    ),
    "exclusive by setting": Piece(
        _settings(_setting("myQueue", default_exclusive_queue="true")),
        settings={("myQueue", "default-exclusive-queue"): True},
    ),
    "ring by setting": Piece(
        _settings(_setting("ring.#", default_ring_size=3)),
        settings={("ring.a", "default-ring-size"): 3},
    ),
    "ring": Piece(
        "<addresses>"
        + _address("myRing", "anycast", '<queue name="myRing" ring-size="5" />')
        + "</addresses>",
        {("myRing", "ring-size"): 5},
    ),
    "retroactive": Piece(
        _settings(_setting("orders", retroactive_message_count=100)),
        settings={("orders", "retroactive-message-count"): 100},
    ),
    "advisory messages": Piece(
        '<acceptors><acceptor name="artemis">tcp://127.0.0.1:61616?protocols=CORE,AMQP,OPENWIRE;'
        "supportAdvisory=false;suppressInternalManagementObjects=false</acceptor></acceptors>",
        missing=("CORE, OPENWIRE",),
    ),
    "settings that are merged": Piece(
        _settings(
            _setting("my.*", max_delivery_attempts=3, last_value_queue="true"),
            _setting("my.queue", last_value_queue="false"),
        ),
        settings={
            ("my.queue", "max-delivery-attempts"): 3,
            ("my.queue", "default-last-value-queue"): False,
            ("my.other", "default-last-value-queue"): True,
        },
    ),
    "creation on demand": Piece(
        _settings(
            _setting(
                "activemq.#", auto_create_addresses="true", auto_delete_addresses="true",
                auto_create_queues="true", auto_delete_queues="true",
                default_address_routing_type="ANYCAST",
            )
        ),
        settings={
            ("activemq.a", "auto-create-addresses"): True,
            ("activemq.a", "auto-delete-addresses"): True,
            ("activemq.a", "auto-create-queues"): True,
            ("activemq.a", "auto-delete-queues"): True,
            ("activemq.a", "default-address-routing-type"): "ANYCAST",
            ("other", "default-address-routing-type"): "MULTICAST",
        },
    ),
    "scan for expired messages": Piece(
        "<message-expiry-scan-period>1000</message-expiry-scan-period>",
        broker={"message_expiry_scan_period": 1000},
    ),
    "expiry delay": Piece(
        _settings(_setting("stocks", expiry_address="ExpiryAddress", expiry_delay=10)),
        settings={
            ("stocks", "expiry-address"): "ExpiryAddress", ("stocks", "expiry-delay"): 10,
        },
    ),
    "smallest and largest expiry delay": Piece(
        _settings(
            _setting(
                "stocks", expiry_address="ExpiryAddress", min_expiry_delay=10, max_expiry_delay=100
            )
        ),
        settings={("stocks", "min-expiry-delay"): 10, ("stocks", "max-expiry-delay"): 100},
    ),
    "expiry address": Piece(
        "<addresses>"
        + _address("ExpiryAddress", "anycast", '<queue name="ExpiryQueue"/>')
        + "</addresses>",
        {("ExpiryQueue", "address"): "ExpiryAddress"},
    ),
    "expiry address alone": Piece(
        _settings(_setting("stocks", expiry_address="ExpiryAddress")),
        settings={("stocks", "expiry-address"): "ExpiryAddress", ("stocks", "expiry-delay"): -1},
    ),
    "expiry resources": Piece(
        _settings(
            _setting(
                "stocks", expiry_address="ExpiryAddress", auto_create_expiry_resources="true",
                expiry_queue_prefix="EXP.", expiry_queue_suffix="",
            )
        ),
        settings={
            ("stocks", "auto-create-expiry-resources"): True,
            ("stocks", "expiry-queue-prefix"): "EXP.", ("stocks", "expiry-queue-suffix"): "",
        },
    ),
    "dead letters": Piece(
        _settings(_setting("exampleQueue", dead_letter_address="DLA", max_delivery_attempts=3)),
        settings={
            ("exampleQueue", "dead-letter-address"): "DLA",
            ("exampleQueue", "max-delivery-attempts"): 3,
        },
    ),
    "dead letter address": Piece(
        "<addresses>" + _address("DLA", "anycast", '<queue name="DLQ" />') + "</addresses>",
        {("DLQ", "address"): "DLA"},
    ),
    "dead letter resources": Piece(
        _settings(
            _setting(
                "exampleQueue", dead_letter_address="DLA", max_delivery_attempts=3,
                auto_create_dead_letter_resources="true", dead_letter_queue_prefix="DLQ.",
                dead_letter_queue_suffix="",
            )
        ),
        settings={
            ("exampleQueue", "auto-create-dead-letter-resources"): True,
            ("exampleQueue", "dead-letter-queue-prefix"): "DLQ.",
            ("exampleQueue", "dead-letter-queue-suffix"): "",
        },
    ),
    "manual on expiry: delay": Piece(
        _settings(_setting("exampleQueue", expiry_address="expiryQueue", expiry_delay=10)),
        settings={
            ("exampleQueue", "expiry-address"): "expiryQueue", ("exampleQueue", "expiry-delay"): 10,
        },
    ),
    "manual on expiry: smallest and largest": Piece(
        _settings(_setting("exampleQueue", min_expiry_delay=10, max_expiry_delay=100)),
        settings={
            ("exampleQueue", "min-expiry-delay"): 10, ("exampleQueue", "max-expiry-delay"): 100,
        },
    ),
    "manual on expiry: address": Piece(
        "<!-- a comment -->" + _settings(_setting("exampleQueue", expiry_address="expiryQueue")),
        settings={("exampleQueue", "expiry-address"): "expiryQueue"},
    ),
    "manual on expiry: resources": Piece(
        _settings(
            _setting(
                "#", expiry_address="expiryAddress", auto_create_expiry_resources="true",
                expiry_queue_prefix="", expiry_queue_suffix=".EXP",
            )
        ),
        settings={
            ("any", "expiry-address"): "expiryAddress", ("any", "expiry-queue-prefix"): "",
            ("any", "expiry-queue-suffix"): ".EXP", ("any", "auto-create-expiry-resources"): True,
        },
    ),
    "redelivery": Piece(
        _settings(
            _setting(
                "jms.queue.exampleQueue", redelivery_delay_multiplier=1.5, redelivery_delay=5000,
                max_redelivery_delay=50000,
            )
        ),
        settings={
            ("jms.queue.exampleQueue", "redelivery-delay-multiplier"): 1.5,
            ("jms.queue.exampleQueue", "redelivery-delay"): 5000,
            ("jms.queue.exampleQueue", "max-redelivery-delay"): 50000,
        },
    ),
    "manual on redelivery: dead letters": Piece(
        _settings(
            _setting(
                "jms.queue.exampleQueue", dead_letter_address="jms.queue.deadLetterQueue",
                max_delivery_attempts=3,
            )
        ),
        settings={
            ("jms.queue.exampleQueue", "dead-letter-address"): "jms.queue.deadLetterQueue",
            ("jms.queue.exampleQueue", "max-delivery-attempts"): 3,
            ("other", "dead-letter-policy"): "DROP",
        },
    ),
    "delivery counts on disk": Piece(
        "<persist-delivery-count-before-delivery>true</persist-delivery-count-before-delivery>",
        broker={"persist_delivery_count_before_delivery": True},
    ),
}  # fmt: skip
