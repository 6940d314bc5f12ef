"""A drill reaches nothing that the operator's configuration names: no key, anchor, file or peer.

Every option that takes a path, a URL or a host gets one, and none may be left in what a drill's
broker serves. So an option that is new fails here until somebody decides what drills do with it.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner
from msgspec.structs import asdict, replace

from daybook.journal.archive.archive import Archive
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import segment_names
from daybook.recovery.signing.signing_keys import make_pair
from daybook.server.config_keys.acceptor_options import COMMON, TABLES
from daybook.server.config_keys.kinds import Invalid
from daybook.server.config_keys.option import Option
from daybook.server.config_keys.options import ARRAYS, SECTIONS
from daybook.server.configuration import config as configs
from daybook.server.configuration.config import Config, field_of
from daybook.server.configuration.replication_config import Place
from daybook.server.configuration.signing_config import check_signing
from daybook.tools import daybook
from daybook.tools.drills import bit_rot, restore
from daybook.tools.drills.scratch import server
from daybook.tools.drills.scratch.server import Serving, Standby, drilled, make_key
from tests.support.brokers.quick_broker import QuickBroker
from tests.support.histories import some_history, write_history

OPERATOR = "operator"
PLACES = (f"/{OPERATOR}/file", f"https://{OPERATOR}/", f"file:/{OPERATOR}/file", f"{OPERATOR}:1")
NAMES_NO_PLACE = {
    "broker.name", "journal.catalog-headers", "acceptor.protocol", "acceptor.name",
    "acceptor.ciphers", "acceptor.certificate-pattern",
    "wildcard-addresses.literal-match-markers",
}  # fmt: skip
"""Options that take any text, and are neither opened nor connected to."""
MADE_BY_NAME = {"virtual-host", "address", "queue", "divert", "security-setting"}
"""The sections of what is in a broker: a drill has none of the operator's."""
TO_OTHERS = {"connector", "auto-link", "sharded-queue", "link-route"}
"""The sections about other brokers: a drill connects to none."""
ROUTING = """
default-distribution = "balanced"

[[connector]]
name = "east"
url = "amqp://east.example.org"

[[auto-link]]
address = "bridge"
direction = "out"
connector = "east"

[[auto-link]]
address = "kept"
direction = "in"
connector = "east"

[[sharded-queue]]
name = "orders"
connectors = ["east"]

[[link-route]]
prefix = "far"
direction = "in"
connector = "east"

[[address]]
prefix = "bridge"

[[address]]
prefix = "kept"
distribution = "stored"
"""


def place_for(option: Option) -> Any:
    """Return a place of the operator that an option takes, None if it takes none."""
    for place in PLACES:
        for value in (place, [place]):
            with suppress(Invalid):
                return option.kind.parse(value)
    return None


def placed(options: tuple[Option, ...], section: str) -> dict[str, Any]:
    """Return a place for each option that takes one, by its field."""
    return {
        field_of(each.name): place
        for each in options
        if f"{section}.{each.name}" not in NAMES_NO_PLACE and (place := place_for(each)) is not None
    }


def config_of_operator() -> Config:
    config = configs.load(None)
    sections = {
        name: replace(getattr(config, name), **placed(SECTIONS[name], name))
        for name in ("broker", "journal", "log", "console")
    }
    common = tuple(each for each in TABLES["stomp"] if each.name in COMMON)
    own = {**placed(common, "acceptor"), "host": OPERATOR}
    assert own.pop("listen") == f"{OPERATOR}:1"
    acceptor = replace(config.acceptors[0], **own, port=1)
    return replace(config, **sections, acceptors=(acceptor,))


def test_no_option_reaches_what_the_operator_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operators = config_of_operator()
    assert operators.journal.signing_key == f"/{OPERATOR}/file"
    assert operators.acceptors[0].client_ca == f"/{OPERATOR}/file"
    monkeypatch.setattr(server, "load", lambda *given: operators)
    found = drilled(Serving("", str(tmp_path / "data")))
    reached = [
        f"{section}.{field}"
        for section, values in (
            ("broker", found.broker), ("journal", found.journal), ("log", found.log),
            ("acceptor", found.acceptors[0]), ("console", found.console),
        )
        for field, value in asdict(values).items()
        if OPERATOR in str(value)
    ]  # fmt: skip
    assert reached == []
    assert found.acceptors[0].host == "127.0.0.1"


def test_a_drill_connects_to_no_other_broker_and_stores_its_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(ROUTING)
    operators = configs.load(path)
    assert operators.connectors
    assert operators.waypoints
    monkeypatch.setattr(server, "load", lambda *given: operators)
    found = drilled(Serving("", str(tmp_path / "data")))
    given = (
        found.connectors, found.auto_links, found.sharded_queues, found.waypoints,
        found.link_routes, found.distributions,
    )  # fmt: skip
    assert given == ((),) * 6
    assert found.broker.default_distribution == "stored"


STANDBYS = """
[replication]
cluster = "production"
node = "one"
acks = "none"
endpoints = ["https://etcd.example.org:2379"]

[[replication-node]]
name = "one"
address = "tcp://127.0.0.1:61620"
"""


def test_a_drill_never_stands_for_the_lead_of_the_operators_cluster(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(STANDBYS)
    assert configs.load(path).replication is not None
    found = drilled(Serving(str(path), str(tmp_path / "data")))
    assert found.replication is None
    # A drill of a cluster has one of its own.
    ports = {"a": 1, "b": 2}
    node = Standby("a", ports, 3, 4, "majority", 5_000, path=str(tmp_path / "lease"))
    own = drilled(Serving(str(path), str(tmp_path / "data"), standby=node)).replication
    assert own is not None
    assert own.cluster == "daybook-drill"
    assert own.nodes == {name: Place(False, "127.0.0.1", port) for name, port in ports.items()}
    assert (own.arbiter, own.endpoints, own.acks) == ("file", (), "majority")


def test_every_section_is_decided_for_drills() -> None:
    """A new section needs a line in `drilled`, and one here."""
    own = {"broker", "journal", "wildcard-addresses", "log", "console"}
    assert set(SECTIONS) == own | {"replication"}
    assert set(ARRAYS) == MADE_BY_NAME | TO_OTHERS | {"acceptor", "replication-node"}
    assert placed(SECTIONS["wildcard-addresses"], "wildcard-addresses") == {}


SIGNING = """
[journal]
signing-key = "{folder}/signing.pem"
anchors = ["file:{folder}/anchors", "https://user:secret@audit.example.org/", "log"]
archive-directory = "{folder}/archive"
"""


@pytest.fixture
def production(tmp_path: Path) -> Path:
    """The folder of an operator who signs and anchors, with his configuration."""
    folder = tmp_path / "production"
    folder.mkdir()
    make_pair(folder / "signing.pem")
    (folder / "anchors").write_text("his\n", "utf-8")
    (folder / "broker.toml").write_text(SIGNING.format(folder=folder), "utf-8")
    return folder


def test_a_drill_signs_with_a_key_of_its_own(production: Path, tmp_path: Path) -> None:
    data = tmp_path / "scratch" / "data"
    data.mkdir(parents=True)
    found = drilled(Serving(str(production / "broker.toml"), str(data)))
    make_key(found)
    check_signing(found)
    assert found.journal.signing_key == str(data.parent / server.KEY)
    assert found.journal.anchors == ("log", f"file:{data.parent / server.ANCHORS}")
    his, own = production / "signing.pem", Path(found.journal.signing_key)
    assert own.read_bytes() != his.read_bytes()


def test_a_drill_signs_nothing_where_nothing_is_signed(tmp_path: Path) -> None:
    found = drilled(Serving("", str(tmp_path / "data")))
    make_key(found)
    assert (found.journal.signing_key, found.journal.anchors) == ("", ())
    assert list(tmp_path.iterdir()) == []


class Watched(QuickBroker):
    """Notes the configuration that a broker would serve."""

    served: ClassVar[list[Config]] = []

    def start(self) -> float:
        self.served.append(drilled(self.serving))
        return super().start()


def test_drills_on_the_operators_history_sign_with_another_key(
    production: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have his data id: what his key signs there would show his own journal as cut."""
    data = write_history(tmp_path / "data", some_history(4, 100), segment_bytes=1 << 13)
    disk = RealDisk(data / "journal")
    for name in segment_names(disk)[:-1]:
        Archive(str(production / "archive")).put(disk, name, now=1)
    monkeypatch.setattr(Watched, "served", [])
    monkeypatch.setattr(bit_rot, "DrillBroker", Watched)
    monkeypatch.setattr(restore, "DrillBroker", Watched)
    config = str(production / "broker.toml")
    before = {path: path.read_bytes() for path in production.rglob("*") if path.is_file()}
    for words in (["bit-rot", "--flips", "1"], ["restore"]):
        done = CliRunner().invoke(
            daybook.cli, ["drill", *words, str(data), "--config", config, "--json"]
        )
        assert done.exit_code == 0, done.output
        report = json.loads(done.stdout)
        assert any("signing key and anchors" in note for note in report["notes"])
        assert "secret" not in done.output
    assert len(Watched.served) >= 2
    for each in Watched.served:
        assert str(production) not in each.journal.signing_key
        assert str(production) not in " ".join(each.journal.anchors)
        assert "audit.example.org" not in " ".join(each.journal.anchors)
    after = {path: path.read_bytes() for path in production.rglob("*") if path.is_file()}
    assert after == before
