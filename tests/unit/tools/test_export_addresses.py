"""Exports that show the messages of some addresses only: the others are proven without content."""

import json
import shutil
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from daybook.engine import commands as c
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.recovery.signing.export_proof import PROOF
from daybook.recovery.signing.signing_keys import make_pair
from tests.support.forging.signed import SignedJournal
from tests.unit.history.exports.test_export_keys import run
from tests.unit.tools.test_exporting import lines_of, verified, write_lines

BOTH = "--redact", "bodies", "--redact", "headers"
ONLY_ORDERS = *BOTH, "--redact-except", "orders"


def do_send(journal: SignedJournal, address: str, body: bytes) -> None:
    headers = b"of:%s\n" % address.encode()
    journal.pen.do(c.Send(journal.connection, address, headers, body))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed journal of two addresses, whose messages are in the same blocks too."""
    folder = tmp_path_factory.mktemp("made")
    make_pair(folder / "key")
    journal = SignedJournal(folder / "data", folder / "key")
    for number in range(3):
        do_send(journal, "orders", b"order %d" % number)
        do_send(journal, "wages", b"secret %d" % number)
        journal.pen.do(c.Begin(journal.connection, f"t{number}"))
        for address, body in (("orders", b""), ("wages", b"secret part"), ("orders", b"part")):
            journal.pen.do(c.Send(journal.connection, address, b"", body, transaction=f"t{number}"))
        journal.pen.do(c.Commit(journal.connection, f"t{number}"))
        journal.checkpoint()
    journal.stop()
    return folder


@pytest.fixture
def scene(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "scene")
    return tmp_path / "scene"


def exported(scene: Path, *words: str) -> Path:
    done = run("export", scene / "data", scene / "export", *words)
    assert done.exit_code == 0, done.output
    return scene / "export"


def content(export: Path) -> bytes:
    blocks = read_blocks(RealDisk(export / JOURNAL))
    return b"".join(bytes(block.heap()) for block in blocks if block.count)


def test_the_messages_of_one_address_are_shown_and_all_is_proven(scene: Path) -> None:
    export = exported(scene, *ONLY_ORDERS)
    found = verified(scene)
    assert found.exit_code == 0, found.output
    assert "without bodies and headers, but with those of orders (id " in found.output
    assert "\nproven" in found.output
    everything = content(export)
    assert b"order 2" in everything
    assert b"of:orders" in everything
    assert b"secret" not in everything
    assert b"of:wages" not in everything
    assert list(json.loads(verified(scene, "--json").stdout)["shown"].values()) == ["orders"]
    # Empty content is neither invented nor hidden.
    told = run("inspect", export, "--json", "--bodies", "--kind", "Routed")
    assert "but for messages of orders that are not large" in told.stderr
    events = [json.loads(line) for line in told.stdout.splitlines()]
    assert len(events) == 15
    for event in events:
        is_shown = event["address_name"] == "orders"
        assert (event["body"] is not None) == is_shown
        assert event.get("redacted") == (None if is_shown else ["bodies", "headers"])
    assert [each["body"] for each in events if each["address_name"] == "orders"][:3] == [
        "order 0", "", "part",
    ]  # fmt: skip


def test_readers_tell_what_is_shown_from_what_is_not(scene: Path) -> None:
    export = exported(scene, *ONLY_ORDERS)
    routed = [
        json.loads(line)
        for line in run("inspect", export, "--json", "--kind", "Routed").stdout.splitlines()
    ]
    by_name = {event["address_name"]: event["lsn"] for event in routed}
    assert "redacted" not in run("trail", export, by_name["orders"]).stdout
    assert "bodies and headers redacted" in run("trail", export, by_name["wages"]).stdout
    assert f"message {routed[0]['lsn']}" in run("trail", export, "--header", "of=orders").stdout
    for refused in ("fork", "salvage", "export"):
        done = run(refused, export, scene / "again")
        assert done.exit_code == 1
        assert "left out" in done.output


def test_bodies_alone_can_be_left_out_of_other_addresses(scene: Path) -> None:
    export = exported(scene, "--redact", "bodies", "--redact-except", "wages")
    assert verified(scene).exit_code == 0
    everything = content(export)
    assert b"secret 1" in everything
    assert b"order 1" not in everything
    assert b"of:orders" in everything


def test_content_that_is_missing_or_too_much_is_found(scene: Path) -> None:
    """The first line is not signed: whatever it says, the blocks have to agree with it."""
    export = exported(scene, *ONLY_ORDERS)
    lines = lines_of(export)
    head = lines[0]
    (shown,) = head["shown"]  # type: ignore[misc]
    others = {str(number): "wages" for number in range(1, 9) if str(number) != shown}
    for claim, why in (
        ({shown: "orders"} | others, "are missing here"),
        ({}, "should not be here"),
        (others, "should not be here"),
    ):
        write_lines(export, [head | {"shown": claim}, *lines[1:]])
        found = verified(scene)
        assert found.exit_code == 1
        assert why in found.output, found.output
        assert "\nproven" not in found.output
    at = next(at for at, line in enumerate(lines) if line.get("bodies"))
    twice = b64encode(2 * b64decode(str(lines[at]["bodies"]))).decode()
    for bodies in ("", twice):
        write_lines(export, [*lines[:at], lines[at] | {"bodies": bodies}, *lines[at + 1 :]])
        found = verified(scene)
        assert found.exit_code == 1
        assert "bodies: there are not as many hashes" in found.output


def test_addresses_that_are_not_there_are_refused(scene: Path) -> None:
    for words, code, why in (
        ((*BOTH, "--redact-except", "nothing"), 1, "no address nothing up to event"),
        (("--redact-except", "orders"), 2, "--redact-except needs --redact"),
    ):
        done = run("export", scene / "data", scene / "export", *words)
        assert done.exit_code == code
        assert why in done.output
        assert not (scene / "export").exists()


def test_an_export_that_shows_an_address_has_a_new_format(scene: Path) -> None:
    assert lines_of(exported(scene, *ONLY_ORDERS))[0]["format"] == 2
    shutil.rmtree(scene / "export")
    head = lines_of(exported(scene, *BOTH))[0]
    assert head["format"] == 1
    assert "shown" not in head
    assert (scene / "export" / PROOF).is_file()


def test_an_address_that_came_again_is_shown_under_all_its_ids(tmp_path: Path) -> None:
    make_pair(tmp_path / "key")
    journal = SignedJournal(tmp_path / "data", tmp_path / "key")
    for body in (b"first life", b"second life"):
        do_send(journal, "orders", body)
        do_send(journal, "wages", b"secret")
        if body == b"first life":
            journal.pen.do(c.DeleteAddress("orders", force=True))
    journal.checkpoint()
    journal.stop()
    export = exported(tmp_path, *ONLY_ORDERS)
    assert len(lines_of(export)[0]["shown"]) == 2  # type: ignore[arg-type]
    everything = content(export)
    assert b"first life" in everything
    assert b"second life" in everything
    assert b"secret" not in everything
    assert verified(tmp_path).exit_code == 0
