"""The configuration: defaults, the file, flags, errors with their places, and reloads."""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.settings.setting_keys import KEYS
from daybook.server.config_keys import options
from daybook.server.configuration.config import Config, ConfigError, default_of, load
from daybook.server.configuration.config_changes import changes, effective

ROOT = Path(__file__).parents[4]
DEFAULT_FILE = ROOT / "etc" / "broker.toml"
TABLES = {**options.SECTIONS, **options.ARRAYS}


@pytest.fixture
def write(tmp_path: Path) -> "Writer":
    return Writer(tmp_path / "broker.toml")


class Writer:
    """Writes a configuration file and loads it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self, text: str, *overrides: str, listen: tuple[str, ...] = ()) -> Config:
        self.path.write_text(text)
        return load(self.path, overrides, listen)

    def problems(self, text: str, *overrides: str, listen: tuple[str, ...] = ()) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            self.load(text, *overrides, listen=listen)
        assert str(caught.value) == "\n".join(caught.value.problems)
        return [one.replace(str(self.path), "FILE") for one in caught.value.problems]


def test_the_default_file_is_the_embedded_default() -> None:
    assert load(DEFAULT_FILE) == load() == load(None, [], [])


def test_the_default_file_names_every_key() -> None:
    text = DEFAULT_FILE.read_text()
    for name, table in TABLES.items():
        start = re.search(rf"^#? ?\[+{name}\]+$", text, re.MULTILINE)
        assert start is not None, name
        rest = text[start.end() :]
        for option in table:
            assert re.search(rf"^#? ?{option.name} = ", rest, re.MULTILINE), option.name
    for key in KEYS:
        assert re.search(rf"^#? ?{key.name} = ", text, re.MULTILINE), key.name


def test_sizes_of_addresses_may_have_a_unit(write: Writer) -> None:
    text = '[[address-setting]]\nmatch = "a"\nmax-size-bytes = "2MiB"\npage-size-bytes = 8192\n'
    config = write.load(text, "address-setting.a.max-read-page-bytes=64KiB")
    assert config.address_settings["a"] == {
        "max-size-bytes": 2 << 20, "page-size-bytes": 8192, "max-read-page-bytes": 64 << 10,
    }  # fmt: skip
    (problem,) = write.problems(text.replace("2MiB", "2Mib"))
    assert problem.startswith("FILE:3: address-setting: max-size-bytes is '2Mib'; it must be a")


def test_times_of_addresses_may_have_a_unit(write: Writer) -> None:
    text = '[[address-setting]]\nmatch = "a"\nredelivery-delay = "5s"\n'
    config = write.load(text, "address-setting.b.redelivery-delay=250ms")
    assert config.address_settings["a"] == {"redelivery-delay": 5_000}
    assert config.address_settings["b"] == {"redelivery-delay": 250}
    (problem,) = write.problems(text.replace("5s", "5x"))
    assert problem == (
        "FILE:3: address-setting: redelivery-delay is '5x'; it must be a number of milliseconds, "
        'or a text like "30s"'
    )
    (problem,) = write.problems(text.replace('"5s"', "-1"))
    assert "it must be from 0 to" in problem


def test_a_page_limit_without_a_policy_is_an_error(write: Writer) -> None:
    text = '[[address-setting]]\nmatch = "a.#"\npage-limit-messages = 5\n'
    (problem,) = write.problems(text)
    assert problem == (
        "FILE:2: address-setting 'a.#': page-limit-messages is set without a page-full-policy; "
        "it must be DROP or FAIL"
    )
    general = '[[address-setting]]\nmatch = "#"\npage-full-policy = "FAIL"\n'
    assert write.load(text + general).address_settings["a.#"] == {"page-limit-messages": 5}


def test_limits_of_the_broker(write: Writer) -> None:
    broker = write.load('global-max-size = -1\nmin-disk-free = "1GiB"\n').broker
    assert (broker.global_max_size, broker.min_disk_free) == (-1, 1 << 30)
    assert broker.disk_full_policy == "BLOCK"
    (problem,) = write.problems('disk-full-policy = "PAGE"')
    assert problem.endswith('disk-full-policy is "PAGE"; it must be one of "BLOCK", "FAIL", "DROP"')
    (problem,) = write.problems("max-disk-usage = 101")
    assert "a whole number from -1 to 100" in problem


def test_the_defaults() -> None:
    config = load()
    assert Path(config.broker.data_directory) == Path("data").absolute()
    assert Path(config.broker.users_file) == Path("data/users.toml").absolute()
    assert config.broker.persist_delivery_count_before_delivery is True
    assert config.journal.segment_bytes == 64 * 2**20
    assert [(one.host, one.port) for one in config.acceptors] == [("127.0.0.1", 61613)]
    assert config.address_settings == {
        "#": {
            "dead-letter-address": "DLQ",
            "expiry-address": "ExpiryQueue",
            "max-delivery-attempts": 10,
        }
    }


def test_every_default_of_the_tables_is_valid_and_has_a_field() -> None:
    config = load()
    structs = {
        "broker": config.broker,
        "journal": config.journal,
        "log": config.log,
    }
    for name, struct in structs.items():
        fields = msgspec.structs.asdict(struct)
        for option in TABLES[name]:
            made = ("listen", "users-file", "data-directory")
            if option.name not in made:
                assert fields[option.name.replace("-", "_")] == default_of(option)


def test_a_whole_file(write: Writer) -> None:
    config = write.load(
        """
max-connections = 5           # a key of [broker] at the top
[broker]
data-directory = "/var/lib/daybook"
journal-non-persistent = "full"
message-expiry-scan-period = -1
[journal]
segment-bytes = "1 GiB"
block-bytes = 65536
idle-mark-delay = "1s"
[[acceptor]]
listen = "[::1]:0"
[[acceptor]]
listen = "0.0.0.0:61614"
allow-cleartext = true
hosts = ["a", "b"]
heart-beat-send = "2m"
[[acceptor]]
name = "third"
listen = "broker.example.org:61613"
allow-cleartext = true
[[address-setting]]
match = "orders.#"
max-delivery-attempts = 3
[[address]]
name = "news"
routing-types = ["multicast", "anycast", "multicast"]
[[queue]]
name = "news.audit"
address = "news"
routing-type = "multicast"
durable = false
[[queue]]
name = "orders"
[log]
level = "debug"
format = "json"
"""
    )
    assert config.broker.max_connections == 5
    assert config.broker.users_file == "/var/lib/daybook/users.toml"
    assert config.broker.message_expiry_scan_period == -1
    assert config.journal.segment_bytes == 2**30
    assert config.journal.idle_mark_delay == 1000
    named = [(one.name, one.host, one.port) for one in config.acceptors]
    assert named == [
        ("stomp", "::1", 0),
        ("stomp-2", "0.0.0.0", 61614),
        ("third", "broker.example.org", 61613),
    ]
    assert config.acceptors[1].options["hosts"] == ("a", "b")
    assert config.acceptors[1].options["heart-beat-send"] == 120_000
    assert config.address_settings["orders.#"] == {"max-delivery-attempts": 3}
    assert config.address_settings["#"]["dead-letter-address"] == "DLQ"
    assert config.addresses[0].routing_types == ("multicast", "anycast")
    assert [(q.name, q.address, q.definition.durable) for q in config.queues] == [
        ("news.audit", "news", False),
        ("orders", "orders", True),
    ]
    assert (config.log.level, config.log.format) == ("debug", "json")


def test_a_default_host_that_has_one_name_alone_is_warned_of(write: Writer) -> None:
    host = '[[virtual-host]]\nname = "default"\n'
    (warning,) = write.load(host).warnings
    assert "many send the name that they connect to" in warning
    assert write.load(host + 'host-names = ["localhost"]\n').warnings == ()


def test_a_match_of_everything_in_the_file_stands_as_it_is_written(write: Writer) -> None:
    config = write.load('[[address-setting]]\nmatch = "#"\nmax-delivery-attempts = -1\n')
    assert config.address_settings == {"#": {"max-delivery-attempts": -1}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = \n", "FILE:1: is not valid TOML: Invalid value"),
        (
            "max-connection = 1",
            "FILE:1: unknown key 'max-connection'; did you mean 'max-connections'?",
        ),
        ("[jurnal]\n", "FILE:1: unknown section 'jurnal'; did you mean 'journal'?"),
        (
            "[journal]\n\nsegment-byte = 1",
            "FILE:3: unknown key 'journal.segment-byte'; did you mean 'journal.segment-bytes'?",
        ),
        ("[log]\ncolour = 1", "FILE:2: unknown key 'log.colour'; there are log.level, log.format"),
        ("\nlog = 1", "FILE:2: log is a section; write [log] and its keys below"),
        ("[acceptor]\n", "FILE:1: acceptor may come several times; write [[acceptor]]"),
        ("[[log]]\n", "FILE:1: log is a section; write [log] and its keys below"),
        (
            "max-connections = 1\n[broker]\nmax-connections = 2",
            "FILE:3: max-connections was set before, at FILE:1; remove one of them",
        ),
        (
            "[broker]\nmax-connections = '5'",
            'FILE:2: max-connections is "5"; it must be a whole number from 1 to 1000000',
        ),
        ("max-connections = true", "FILE:1: max-connections is true; it must be a whole number"),
        (
            "persist-delivery-count-before-delivery = 1",
            "FILE:1: persist-delivery-count-before-delivery is 1; it must be true or false",
        ),
        (
            "journal-non-persistent = 'some'",
            'FILE:1: journal-non-persistent is "some"; it must be one of "decisions", "full"',
        ),
        (
            "journal-non-persistent = 'off'",
            'FILE:1: journal-non-persistent is "off"; every decision is journaled: write "dec',
        ),
        ("name = 'a b'", 'FILE:1: name is "a b"; it must be a name without spaces'),
        ("name = 2020-01-02", 'FILE:1: name is "2020-01-02"; it must be a name without spaces'),
        (
            "[journal]\nsegment-bytes = '64MX'",
            'FILE:2: journal.segment-bytes is "64MX"; it must be a size from 64KiB to 4GiB',
        ),
        (
            "[journal]\nsegment-bytes = 1.5",
            "FILE:2: journal.segment-bytes is 1.5; it must be a size",
        ),
        ("[journal]\nsegment-bytes = 1", "FILE:2: journal.segment-bytes is 1; it must be a size"),
        (
            "[journal]\nidle-mark-delay = '2 weeks'",
            'FILE:2: journal.idle-mark-delay is "2 weeks"; it must be a duration from 1 ms',
        ),
        (
            "[journal]\nblock-bytes = '4MiB'\nmax-pending-bytes = '1MiB'",
            "FILE:3: journal.max-pending-bytes is 1048576; it must be at least journal.block-bytes,"
            " which is 4194304",
        ),
        (
            "[journal]\nblock-bytes = '64MiB'",
            "FILE:2: journal.max-pending-bytes is 33554432; it must be at least",
        ),
        (
            "[[acceptor]]\n\n[[acceptor]]\nlisten = '61613'",
            'FILE:4: acceptor.listen is "61613"; it must be "HOST:PORT", like',
        ),
        (
            "[[acceptor]]\nlisten = 'localhost:65536'",
            'FILE:2: acceptor.listen is "localhost:65536"; it must be',
        ),
        ("[[acceptor]]\nlisten = 'stomp://localhost:1'", "FILE:2: acceptor.listen is"),
        ("[[acceptor]]\ntls-key = 'x'", "FILE:2: unknown key 'acceptor.tls-key'"),
        (
            "[[acceptor]]\nprotocol = 'mqtt'",
            'FILE:2: acceptor.protocol is "mqtt"; it must be one of "stomp", "amqp"',
        ),
        (
            "[[acceptor]]\n[[acceptor]]\n",
            "FILE:2: acceptor.listen is the same as that of acceptor 'stomp'; every acceptor",
        ),
        (
            "[[acceptor]]\nname='a'\n[[acceptor]]\nlisten='localhost:1'\nname = 'a'",
            "FILE:5: acceptor.name 'a' was used before, at FILE:2",
        ),
        (
            "[[acceptor]]\nhosts = 'a'",
            'FILE:2: acceptor.hosts is "a"; it must be a list of strings',
        ),
        (
            "acceptor = [ {listen = 'localhost:1'},\n { listn = 'x' } ]",
            "FILE:2: unknown key 'acceptor.listn'; did you mean",
        ),
        (
            "[[address]]\nrouting-types=[]\nname='a'",
            "FILE:2: address.routing-types is []; it must be a list",
        ),
        ("\n[[address]]\n", "FILE:2: address.name is missing"),
        (
            "[[address]]\nname='a::b'",
            "FILE:2: address.name is \"a::b\": '::' divides address and queue",
        ),
        (
            "[[address]]\nname='a'\n[[queue]]\nname='q'\naddress='a'\nrouting-type='multicast'",
            "FILE:6: queue.routing-type is \"multicast\", which the address 'a' has not in its",
        ),
        (
            "[[queue]]\nname='q'\n[[queue]]\nname='q'",
            "FILE:4: queue.name 'q' was used before, at FILE:2",
        ),
        ("[[address-setting]]\n", "FILE:1: address-setting needs a match"),
        ("[[address-setting]]\nmatch = 1\n", "FILE:2: address-setting needs a match"),
        (
            "[[address-setting]]\nmatch = 'a.#.b'\n",
            "FILE:2: address-setting: the match 'a.#.b' has '#' in the middle",
        ),
        (
            "[[address-setting]]\nmatch='a'\n[[address-setting]]\nmatch='a'",
            "FILE:4: the match 'a' was used before, at FILE:2",
        ),
        (
            "[[address-setting]]\nmatch = 'a'\nmax-delivery-attempt = 1",
            "FILE:3: address-setting: unknown address setting 'max-delivery-attempt'; did you mean",
        ),
        (
            "[[address-setting]]\nmatch = 'a'\nmax-delivery-attempts = 'x'",
            "FILE:3: address-setting: max-delivery-attempts is 'x'; it must be a whole number",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_line(
    write: Writer, text: str, problem: str
) -> None:
    (found,) = write.problems(text)
    assert found.startswith(problem)


def test_all_problems_are_told_at_once(write: Writer) -> None:
    found = write.problems("nme = 'x'\n[log]\nlevel = 'loud'\n", "journal.x=1", listen=("bad",))
    assert [one.split(": ")[0] for one in found] == [
        "FILE:1",
        "--listen bad",
        "--set journal.x=1",
        "FILE:3",
    ]


def test_a_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml: cannot be read: there is no such file"):
        load(tmp_path / "missing.toml")


@pytest.mark.parametrize(
    ("flag", "section", "field", "value"),
    [
        ("journal.segment-bytes=1MiB", "journal", "segment_bytes", 2**20),
        ("journal.segment-bytes=65536", "journal", "segment_bytes", 65536),
        ('journal.segment-bytes="2MiB"', "journal", "segment_bytes", 2**21),
        ("journal.idle-mark-delay = 30s", "journal", "idle_mark_delay", 30_000),
        ("max-connections=7", "broker", "max_connections", 7),
        ("broker.max-connections=7", "broker", "max_connections", 7),
        ("name=42", "broker", "name", "42"),
        ('name="b"', "broker", "name", "b"),
        ("data-directory=/tmp/a=b", "broker", "data_directory", "/tmp/a=b"),
        ("log.level=error", "log", "level", "error"),
    ],
)
def test_flags_beat_the_file(
    write: Writer, flag: str, section: str, field: str, value: object
) -> None:
    text = "max-connections = 3\n[journal]\nsegment-bytes = '8MiB'\n[log]\nlevel = 'debug'\n"
    assert getattr(getattr(write.load(text, flag), section), field) == value


def test_the_last_flag_wins() -> None:
    flags = ["persist-delivery-count-before-delivery=true"]
    flags += ["broker.persist-delivery-count-before-delivery=false"]
    assert load(None, flags).broker.persist_delivery_count_before_delivery is False


def test_flags_set_keys_of_all_acceptors_and_of_one_match() -> None:
    config = load(
        None,
        [
            "acceptor.max-headers=3",
            'acceptor.hosts=["a"]',
            "address-setting.orders.#.max-delivery-attempts=3",
            "address-setting.#.dead-letter-address=123",
        ],
        ["stomp://localhost:1", "stomp://[::1]:2"],
    )
    assert [
        (one.host, one.port, one.options["max-headers"], one.options["hosts"])
        for one in config.acceptors
    ] == [
        ("localhost", 1, 3, ("a",)),
        ("::1", 2, 3, ("a",)),
    ]
    assert config.address_settings["orders.#"] == {"max-delivery-attempts": 3}
    assert config.address_settings["#"]["dead-letter-address"] == "123"
    assert config.address_settings["#"]["max-delivery-attempts"] == 10


def test_listen_replaces_the_acceptors_of_the_file(write: Writer) -> None:
    config = write.load(
        "[[acceptor]]\nname = 'x'\nmax-headers = 5\n", listen=("stomp://localhost:1",)
    )
    assert [(one.name, one.host, one.options["max-headers"]) for one in config.acceptors] == [
        ("stomp", "localhost", 1000)
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("max-headers = 'many'", 'acceptor.max-headers is "many"'),
        ("nonsense = 1", "unknown key 'acceptor.nonsense'"),
        ("add-user-header = 'destination'", "cannot be a header that is added"),
        ("add-user-header = 'a b'", "it must be the name of a header"),
        ("queue-prefix = '/topic/'", "queue-prefix and topic-prefix must not be empty"),
        ("[[acceptor]]", "acceptor.listen is the same as that of acceptor"),
    ],
)
def test_acceptors_that_listen_replaces_are_judged_too(
    write: Writer, text: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        write.load(f"[[acceptor]]\n{text}\n", listen=("stomp://localhost:1",))
    (told,) = caught.value.problems
    assert problem in told
    assert told.startswith(f"{write.path}:")


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("journal.segment-bytes", "it must be KEY=VALUE, like journal.segment-bytes=16MiB"),
        ("journal=1", "journal is a section; name one of its keys, as journal.KEY=VALUE"),
        ("jurnal.segment-bytes=1", "unknown section 'jurnal'; did you mean 'journal'?"),
        (
            "acceptor.stomp.listen=:1",
            "it must be acceptor.KEY=VALUE, for all acceptors that have the key; one part too many",
        ),
        ("journal.old.segment-bytes=1", "it must be journal.KEY=VALUE; one part too many"),
        ("journal.segment=1", "unknown key 'journal.segment'; did you mean"),
        ("max-conections=1", "unknown key 'max-conections'; did you mean 'max-connections'?"),
        ("max-connections=many", 'max-connections is "many"; it must be a whole number'),
        ("max-connections=1\nname=2", "max-connections is"),
        (
            "persist-delivery-count-before-delivery=True",
            'persist-delivery-count-before-delivery is "True"; it must be true or false',
        ),
        ("address.name=x", "[[address]] cannot be set by a flag; write it in a file"),
        ("address-setting.a=1", "it must be address-setting.MATCH.KEY=VALUE"),
        ("address-setting.a.b=1", "address-setting: unknown address setting 'b'"),
        ("address-setting.a.#.b.max-delivery-attempts=1", "address-setting: the match 'a.#.b'"),
        ("acceptor.listn=1", "unknown key 'acceptor.listn'"),
        ("hosts=a", "unknown key 'hosts'; did you mean 'acceptor.hosts'?"),
        ("level=info", "unknown key 'level'; did you mean 'log.level'?"),
        ("journal.segment-bytes=1e400", "journal.segment-bytes is inf; it must be a size"),
        ("journal.segment-bytes=nan", "journal.segment-bytes is nan; it must be a size"),
    ],
)
def test_what_is_wrong_in_a_flag_is_said(flag: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, [flag])
    assert caught.value.problems[0].startswith(f"--set {flag}: {problem}")
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("127.0.0.1:1", "it must be PROTOCOL://HOST:PORT"),
        ("mqtt://localhost:1", 'acceptor.protocol is "mqtt"; it must be one of "stomp", "amqp"'),
        ("stomp://h", 'acceptor.listen is "h"; it must be "HOST:PORT"'),
        ("stomp://::1:5", 'acceptor.listen is "::1:5"; it must be "HOST:PORT"'),
    ],
)
def test_what_is_wrong_in_listen_is_said(flag: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, [], [flag])
    assert caught.value.problems[0].startswith(f"--listen {flag}: {problem}")


def test_nothing_changes_when_nothing_changed() -> None:
    assert changes(load(), load()) == ([], [])
    assert effective(load(), load()) == load()


def test_a_reload_takes_what_is_live_and_names_what_is_not(write: Writer) -> None:
    old = write.load(
        "[[acceptor]]\n[[acceptor]]\nname='b'\nlisten='localhost:1'\n[[queue]]\nname='q'\n"
    )
    new = write.load(
        "max-connections = 5\nname = 'new'\n[journal]\nblock-bytes = 65536\n[log]\nlevel='error'\n"
        "[[acceptor]]\nlisten='127.0.0.1:5'\nmax-headers=5\n[[acceptor]]\nname='c'\nlisten='localhost:2'\n"
        "[[address-setting]]\nmatch='a'\nmax-delivery-attempts=1\n"
        "[[address-setting]]\nmatch='#'\nmax-delivery-attempts=11\n"
    )
    applied, needs_restart = changes(old, new)
    assert set(applied) == {
        "broker: max-connections 10000 -> 5",
        'log: level "info" -> "error"',
        "acceptor stomp: max-headers 1000 -> 5",
        "address-setting a: added",
        "address-setting #: max-delivery-attempts 10 -> 11",
        'address-setting #: dead-letter-address "DLQ" -> unset',
        'address-setting #: expiry-address "ExpiryQueue" -> unset',
        "queue q: removed",
    }
    assert set(needs_restart) == {
        'broker: name "daybook" -> "new"',
        "journal: block-bytes 262144 -> 65536",
        "acceptor stomp: port 61613 -> 5",
        "acceptor b: removed",
        "acceptor c: added",
    }
    running = effective(old, new)
    assert running.broker.max_connections == 5
    assert running.broker.name == "daybook"
    assert running.acceptors[0].port == 61613
    assert changes(running, new) == ([], needs_restart)


_pieces = st.sampled_from(
    [
        *DEFAULT_FILE.read_text().splitlines(keepends=True),
        "[[acceptor]]\n",
        "[acceptor]\n",
        "a.b=1\n",
    ]
    + [
        "journal.log = 1\n",
        "broker = 3\n",
        "[[journal]]\n",
        "match = 1\n",
        "x = inf\n",
        "'' = {}\n",
    ]
)


def problems_of(
    path: Path | None, overrides: Sequence[str] = (), listen: Sequence[str] = ()
) -> list[str]:
    """Problems of a configuration; anything but ConfigError is a failure of the test."""
    try:
        assert load(path, overrides, listen).acceptors
    except ConfigError as error:
        return list(error.problems)
    return []


@given(st.lists(_pieces | st.text(max_size=5), max_size=12).map("".join))
def test_any_file_is_a_configuration_or_one_documented_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    for problem in problems_of(path):
        assert re.match(rf"{re.escape(str(path))}(:[0-9]+)?: .", problem)


@given(st.text(max_size=12) | _pieces)
def test_any_flag_is_taken_or_one_documented_error(text: str) -> None:
    for problem in problems_of(None, [text]) + problems_of(None, [f"max-connections={text}"]):
        assert problem.startswith("--set ")
    for problem in problems_of(None, [], [text]):
        assert problem.startswith("--listen ")
