"""Forgeries that a chain without a key cannot show, and keys and anchors do."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import msgspec
import pytest
from click.testing import CliRunner, Result

from daybook.engine.broker import Broker
from daybook.engine.commands import Start, Stop
from daybook.engine.core.core import Options
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.events import KIND
from daybook.journal.blocks.format import segment_first_lsn
from daybook.journal.data_directory import DATA_ID, JOURNAL, NOTARY
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import segment_names
from daybook.paging.indexer.indexers import ThreadIndexers
from daybook.recovery.directory import open_directory
from daybook.recovery.signing.signing_keys import load_private, make_pair
from daybook.recovery.signing.statements import change_message
from daybook.server.history.notary import Notary
from daybook.server.history.notary_messages import Answer, Configure, Refused, Sign, Signed
from daybook.tools.journal_cli import cli
from tests.support.forging.faults import changed
from tests.support.forging.signed import (
    SignedJournal,
    is_signature,
    rewrite,
    swap_blocks,
    with_body,
)
from tests.support.stored.full_disk import no_file_above
from tests.support.world import Event


class Scene:
    """A signed journal, its key and its anchors, to be spoilt."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.key = folder / "key.pem"
        self.public = folder / "key.pem.pub"
        self.anchors = folder / "anchors"

    def make(self, *more: bytes) -> "Scene":
        make_pair(self.key)
        journal = SignedJournal(self.data, self.key)
        for number in range(6):
            for body in (b"body of message %d" % number, *more):
                journal.send(body)
            journal.checkpoint()
        journal.stop()
        journal.write_anchors(self.anchors)
        return self

    def verify(self, *words: str | Path) -> Result:
        return CliRunner().invoke(cli, ["verify", str(self.data), *map(str, words)])

    @property
    def with_key(self) -> Result:
        return self.verify("--public-key", self.public)

    @property
    def with_anchors(self) -> Result:
        return self.verify("--anchor", self.anchors)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signed")
    Scene(folder).make()
    return folder


@pytest.fixture
def scene(made: Path, tmp_path: Path) -> Scene:
    shutil.copytree(made, tmp_path / "scene")
    return Scene(tmp_path / "scene")


def test_a_signed_journal_is_proven_up_to_its_clean_end(scene: Scene) -> None:
    told = json.loads(
        scene.verify("--json", "--public-key", scene.public, "--anchor", scene.anchors).stdout
    )
    assert told["ok"]
    assert told["proven"]["signatures"] == told["proven"]["anchors"] == 7
    last = told["report"]["last_lsn"]
    assert told["proven"]["signed_lsn"] == told["proven"]["anchored_lsn"] == last
    assert "not proven yet" not in scene.with_key.output


def test_from_an_event_on_signatures_and_anchors_are_compared(scene: Scene) -> None:
    names = segment_names(RealDisk(scene.data / JOURNAL))
    first = segment_first_lsn(names[len(names) // 2])
    proofs = ["--public-key", scene.public, "--anchor", scene.anchors]
    whole = json.loads(scene.verify("--json", *proofs).stdout)["proven"]
    part = scene.verify("--from", str(first), *proofs)
    assert part.exit_code == 0, part.output
    assert f"signed up to event {whole['signed_lsn']} (" in part.output
    assert f"anchored up to event {whole['anchored_lsn']}; " in part.output
    assert f"intact from event {first} on" in part.output
    assert f"changes of the signing key before event {first}" in part.output
    rewrite(scene.data, with_body(b"body of message 5", b"body of massage 5"))
    assert scene.verify("--from", str(first)).exit_code == 0
    for some in (proofs[:2], proofs[2:]):
        assert scene.verify("--from", str(first), *some).exit_code == 1
    make_pair(scene.folder / "other")
    of_another = scene.verify("--from", str(first), "--public-key", scene.folder / "other.pub")
    assert of_another.exit_code == 1


def test_a_body_that_was_changed_and_hashed_again_is_found(scene: Scene) -> None:
    rewrite(scene.data, with_body(b"body of message 2", b"body of massage 2"))
    assert scene.verify().exit_code == 0
    assert "intact" in scene.verify().output
    found = scene.with_key
    assert found.exit_code == 1
    assert "is not the one that was signed" in found.output
    found = scene.with_anchors
    assert found.exit_code == 1
    assert "the journal up to there is another one" in found.output
    # Earlier signatures still prove their events.
    assert "anchored up to event" in found.output


def test_blocks_that_were_swapped_are_found_only_by_what_was_signed(tmp_path: Path) -> None:
    """Nothing in the events says that it was otherwise (docs/audit.md, J)."""
    scene = Scene(tmp_path).make(b"body of a sibling")
    swap_blocks(scene.data, b"body of message 2")
    assert scene.verify().exit_code == 0
    audit = CliRunner().invoke(cli, ["audit", str(scene.data)])
    assert audit.exit_code == 0
    for found in (scene.with_key, scene.with_anchors):
        assert found.exit_code == 1
    assert "is not the one that was signed" in scene.with_key.output


def test_a_time_that_was_moved_a_little_is_found_only_by_what_was_signed(scene: Scene) -> None:
    def change(event: Event) -> Event:
        if event.body != b"body of message 2":
            return event
        return event._replace(row=changed(event.row, time=event.row[events.TIME] + 1))

    rewrite(scene.data, change)
    assert scene.verify().exit_code == 0
    assert scene.with_key.exit_code == 1
    assert "is not the one that was signed" in scene.with_key.output


def remove_end(scene: Scene) -> None:
    """Remove the newest segments, and make the last one that is left the newest again."""
    disk = RealDisk(scene.data / JOURNAL)
    kept = segment_names(disk)[:-1]
    seen = 0

    def change(event: Event) -> Event | None:
        nonlocal seen
        seen += is_signature(event)
        return event if seen < 4 else None

    assert kept
    rewrite(scene.data, change)


def test_a_removed_end_is_found_by_an_anchor(scene: Scene) -> None:
    remove_end(scene)
    (scene.data / NOTARY).unlink()
    assert scene.verify().exit_code == 0
    # A key alone cannot know that there was more.
    assert scene.with_key.exit_code == 0
    assert "are not proven yet" in scene.with_key.output
    found = scene.with_anchors
    assert found.exit_code == 1
    assert "its end was removed" in found.output


def test_a_removed_end_is_found_by_the_notary_s_file_too(scene: Scene) -> None:
    remove_end(scene)
    assert "its end was removed" in scene.with_key.output
    assert scene.with_key.exit_code == 1


def test_removed_signatures_are_found(scene: Scene) -> None:
    rewrite(scene.data, lambda event: None if is_signature(event) else event)
    (scene.data / NOTARY).unlink()
    assert "no signature of the given key" in scene.with_key.output
    assert scene.with_key.exit_code == 1


def test_signatures_that_are_removed_from_the_end_are_found(scene: Scene) -> None:
    seen = 0

    def change(event: Event) -> Event | None:
        nonlocal seen
        seen += is_signature(event)
        return event if seen <= 1 or not is_signature(event) else None

    rewrite(scene.data, change)
    (scene.data / NOTARY).unlink()
    assert "checkpoints follow" in scene.with_key.output
    assert scene.with_key.exit_code == 1


def test_a_signature_that_is_removed_from_the_middle_is_found(scene: Scene) -> None:
    seen = 0

    def change(event: Event) -> Event | None:
        nonlocal seen
        seen += is_signature(event)
        return None if seen == 3 and is_signature(event) else event

    rewrite(scene.data, change)
    assert scene.with_key.exit_code == 1


def test_a_signature_that_was_changed_is_found(scene: Scene) -> None:
    def change(event: Event) -> Event:
        if not is_signature(event):
            return event
        detail = events.decode_detail(events.SIGNED, event.detail)
        assert isinstance(detail, details.SignedDetail)
        changed = msgspec.structs.replace(detail, time=detail.time + 1)
        return event._replace(detail=events.encode_detail(changed))

    rewrite(scene.data, change)
    assert "the signature does not match" in scene.with_key.output
    assert scene.with_key.exit_code == 1


def test_a_foreign_key_proves_nothing(scene: Scene) -> None:
    other = make_pair(scene.folder / "other.pem")
    found = scene.verify("--public-key", other)
    assert found.exit_code == 1
    assert "no signed change links" in found.output


def test_an_anchor_of_another_broker_is_refused(scene: Scene) -> None:
    lines = scene.anchors.read_bytes().splitlines(keepends=True)
    theirs = json.loads(lines[1]) | {"data_id": "ab" * 16}
    scene.anchors.write_bytes(lines[0] + json.dumps(theirs).encode() + b"\n")
    assert scene.with_anchors.exit_code == 1
    assert "of another data directory" in scene.with_anchors.output


def events_in(data: Path) -> list[Event]:
    """Return all events of a journal."""
    blocks = read_blocks(RealDisk(data / JOURNAL))
    return [Event(*event) for block in blocks if block.count for event in block.events()]


def share_place(scene: Scene) -> str:
    """Add anchors of another broker to those of a journal, whose id is returned."""
    own = (scene.data / DATA_ID).read_text()
    lines = scene.anchors.read_bytes()
    scene.anchors.write_bytes(lines + lines.replace(own.encode(), b"ab" * 16))
    return own


def test_a_place_of_anchors_may_be_shared_by_those_who_say_which_broker_it_is(
    scene: Scene,
) -> None:
    """Without that a journal in the place of another, with an anchor of its own, would pass."""
    own = share_place(scene)
    found = scene.with_anchors
    assert found.exit_code == 1
    assert found.output.count("WRONG") == 1
    assert "7 anchors, the first of them of event" in found.output
    assert "--data-id says which of them this must be" in found.output
    no_keys: tuple[str | Path, ...] = ()
    for keys in (no_keys, ("--public-key", scene.public)):
        found = scene.verify("--anchor", scene.anchors, "--data-id", own, *keys)
        assert found.exit_code == 0, found.output
        assert "not compared: 7 of the anchors, which are of other data directories" in found.output
    told = json.loads(scene.verify("--json", "--anchor", scene.anchors, "--data-id", own).stdout)
    assert (told["proven"]["anchors"], told["proven"]["anchors_of_others"]) == (7, 7)


def test_a_journal_in_the_place_of_another_is_found(scene: Scene) -> None:
    """A person who may append to the place of anchors adds fitting ones, unsigned."""
    own = share_place(scene)
    found = scene.verify("--anchor", scene.anchors, "--data-id", "ab" * 16)
    assert found.exit_code == 1
    assert f"this is the data directory {own}, and not" in found.output
    assert scene.verify("--data-id", "ab" * 16).exit_code == 1


def test_a_fork_of_a_signed_source_is_told_to_have_a_key_of_its_own(scene: Scene) -> None:
    words = ["fork", str(scene.data), str(scene.folder / "fork")]
    assert "without its signing-key and anchors" in CliRunner().invoke(cli, words).output
    (scene.folder / "fork" / NOTARY).unlink(missing_ok=True)
    words = ["fork", str(scene.folder / "fork"), str(scene.folder / "unsigned")]
    assert "signing-key" not in CliRunner().invoke(cli, words).output


def signed_again(scene: Scene, made: Path) -> Scene:
    """Start a broker with a key of its own on what was made from a signed journal, and stop it."""
    make_pair(made.parent / "own.pem")
    opened = open_directory(made, indexers=ThreadIndexers(0))
    recovered = opened.recovered
    broker = Broker(recovered.state, recovered.events + 1, Options())
    said: list[Answer] = []
    notary = Notary(made)
    notary.say = said.append  # type: ignore[method-assign, assignment]
    notary.configure(Configure(str(made.parent / "own.pem"), []))
    for command in (Start(version="2"), Stop()):
        broker.handle(command, 4_000_000_000_000_000)
        batch = broker.take()
        assert batch is not None
        recovered.journal.append(batch)
    recovered.journal.mark(1)
    opened.close()
    notary.sign(Sign(broker.lsn, "", 0, last=True))
    assert any(isinstance(each, Signed) for each in said), said
    own = Scene(scene.folder)
    own.data, own.public = made, made.parent / "own.pem.pub"
    return own


@pytest.mark.parametrize("way", ["fork", "salvage"])
def test_what_was_made_from_a_signed_journal_is_proven_by_its_own_key(
    scene: Scene, way: str
) -> None:
    """The signatures in its history are about the source. Its own covers all, so nothing that
    somebody adds to look like the beginning of a fork hides a forgery."""
    made = scene.folder / "made"
    assert CliRunner().invoke(cli, [way, str(scene.data), str(made)]).exit_code == 0
    fresh = Scene(scene.folder)
    fresh.data = made
    assert "the journal is not proven" in fresh.with_key.output
    own = signed_again(scene, made)
    assert own.with_key.exit_code == 0, own.with_key.output
    assert "signatures of the data directory from which this one was made" in own.with_key.output
    told = json.loads(own.verify("--json", "--public-key", own.public).stdout)
    assert (told["proven"]["signatures"], told["proven"]["signatures_of_source"]) == (1, 6)
    assert fresh.with_key.exit_code == 1


def test_an_export_of_a_fork_has_its_own_history_only(scene: Scene) -> None:
    """Blocks of the source carry its data id, and are not blocks of the fork."""
    made = scene.folder / "made"
    assert CliRunner().invoke(cli, ["fork", str(scene.data), str(made)]).exit_code == 0
    own = signed_again(scene, made)
    words = ["export", str(made), str(scene.folder / "export")]
    found = CliRunner().invoke(cli, words)
    assert found.exit_code == 1
    assert "from which this one was forked: export them there" in found.output
    first = found.output.rpartition("--from ")[2].strip()
    done = CliRunner().invoke(cli, [*words, "--from", first])
    assert done.exit_code == 0, done.output
    words = ["verify", str(scene.folder / "export"), "--public-key", str(own.public)]
    assert CliRunner().invoke(cli, words).output.endswith("proven\n")


def test_no_false_beginning_of_a_fork_hides_a_forgery(scene: Scene) -> None:
    """Later signatures cover the history before it; there must be at least one."""

    def change(event: Event) -> Event:
        forged = with_body(b"body of message 1", b"body of message X")(event)
        if not is_signature(event) or event.lsn not in hidden:
            return forged
        told = details.LostDetail(source="ab" * 16)
        lost = events.row(events.LOST, reason=reasons.SALVAGED, time=1)
        return event._replace(row=lost, detail=events.encode_detail(told))

    signed = [event.lsn for event in events_in(scene.data) if is_signature(event)]
    hidden: set[int] = set()
    whole = scene.folder / "whole"
    shutil.copytree(scene.data, whole)
    for event in (signed[-1], signed[2]):
        hidden = {event}
        shutil.rmtree(scene.data)
        shutil.copytree(whole, scene.data)
        (scene.data / NOTARY).unlink()
        rewrite(scene.data, change)
        found = scene.with_key
        assert found.exit_code == 1
        assert "WRONG" in found.output
    assert "the journal up to there is not the one that was signed" in found.output


def test_anchors_of_others_alone_prove_nothing(scene: Scene) -> None:
    own = (scene.data / DATA_ID).read_text()
    scene.anchors.write_bytes(scene.anchors.read_bytes().replace(own.encode(), b"ab" * 16))
    found = scene.verify("--anchor", scene.anchors, "--data-id", own)
    assert found.exit_code == 1
    assert f"none of the anchors is of the data directory {own}" in found.output


@pytest.mark.parametrize("value", ["", "ab", "xy" * 16, "ab" * 17])
def test_what_is_no_id_is_bad_use(scene: Scene, value: str) -> None:
    found = scene.verify("--anchor", scene.anchors, "--data-id", value)
    assert found.exit_code == 2
    assert "is not an id of a data directory" in found.output


def test_no_flipped_bit_in_any_file_is_taken_for_proof(scene: Scene) -> None:
    random = Random(7)
    for path in (scene.anchors, scene.data / NOTARY, scene.public):
        sound = path.read_bytes()
        for position in random.sample(range(len(sound)), 25):
            spoilt = bytearray(sound)
            spoilt[position] ^= 1 << random.randrange(8)
            path.write_bytes(spoilt)
            found = scene.verify("--public-key", scene.public, "--anchor", scene.anchors)
            assert found.exception is None or isinstance(found.exception, SystemExit), position
            if found.exit_code == 0:
                # Blanks between lines, and in the frame of a PEM file, mean nothing.
                assert sound[position : position + 1].isspace() or path == scene.public, position
        path.write_bytes(sound)


def test_an_empty_file_of_anchors_proves_nothing(scene: Scene) -> None:
    scene.anchors.write_bytes(b"")
    assert scene.with_anchors.exit_code == 1
    assert "proves nothing" in scene.with_anchors.output


def test_a_private_key_is_no_public_one(scene: Scene) -> None:
    found = scene.verify("--public-key", scene.key)
    assert found.exit_code == 1
    assert "which is not needed here" in found.output


def rotated(folder: Path) -> Scene:
    scene = Scene(folder)
    make_pair(scene.key)
    make_pair(folder / "new.pem")
    journal = SignedJournal(scene.data, scene.key)
    for key in (scene.key, folder / "new.pem"):
        journal.use(key)
        journal.send(b"with " + key.name.encode())
        journal.checkpoint()
    journal.stop()
    return scene


def test_whoever_trusts_one_key_trusts_its_successor(tmp_path: Path) -> None:
    scene = rotated(tmp_path)
    for public in (scene.public, tmp_path / "new.pem.pub"):
        told = json.loads(scene.verify("--json", "--public-key", public).stdout)
        assert told["ok"], told
        assert len(told["proven"]["keys"]) == 2


def test_a_change_of_key_without_the_old_one_links_nothing(tmp_path: Path) -> None:
    scene = rotated(tmp_path)
    new = load_private(tmp_path / "new.pem")

    def change(event: Event) -> Event:
        if event.row[KIND] != events.SIGNING_KEY_CHANGED:
            return event
        known = events.decode_detail(event.row[KIND], event.detail)
        assert isinstance(known, details.KeyChangeDetail)
        forged = msgspec.structs.replace(known, time=known.time + 1)
        signature = new.sign(change_message(bytes(range(16)).hex(), forged))
        return event._replace(
            detail=events.encode_detail(msgspec.structs.replace(forged, signature_new=signature))
        )

    rewrite(scene.data, change)
    found = scene.with_key
    assert found.exit_code == 1
    assert "not signed by both" in found.output


def test_a_new_notary_continues_and_journals_the_signature_of_a_clean_end(tmp_path: Path) -> None:
    scene = Scene(tmp_path).make()
    last = json.loads(scene.anchors.read_bytes().splitlines()[-1])
    # As the next start of the broker: another notary on the same directory.
    said: list[Answer] = []
    notary = Notary(scene.data)
    notary.say = said.append  # type: ignore[method-assign, assignment]
    notary.configure(Configure(str(scene.key), []))
    assert notary.sign(Sign(last["lsn"], "", 0))
    signed = [each.statement.lsn for each in said if isinstance(each, Signed)]
    assert signed == [last["lsn"]] * 2


def test_a_key_that_cannot_be_read_leaves_the_one_before(tmp_path: Path) -> None:
    make_pair(tmp_path / "key.pem")
    journal = SignedJournal(tmp_path / "data", tmp_path / "key.pem")
    (tmp_path / "bad.pem").write_text("no key")
    journal.use(tmp_path / "bad.pem")
    (refused,) = journal.take(Refused)
    assert refused.key
    assert "not a private key" in refused.why
    journal.send(b"x")
    journal.checkpoint()
    assert journal.anchors[0].key == refused.key


def test_keys_are_made_for_their_owner_and_replace_nothing(tmp_path: Path) -> None:
    words = ["keygen", str(tmp_path / "a.pem")]
    assert CliRunner().invoke(cli, words).exit_code == 0
    before = (tmp_path / "a.pem").read_bytes()
    assert os.stat(tmp_path / "a.pem").st_mode & 0o777 == 0o600  # noqa: PTH116
    assert "exists already" in CliRunner().invoke(cli, words).output
    assert (tmp_path / "a.pem").read_bytes() == before


def test_the_newest_anchor_is_printed_on_demand(scene: Scene) -> None:
    printed = CliRunner().invoke(cli, ["anchor", str(scene.data)])
    assert printed.stdout.encode() == scene.anchors.read_bytes().splitlines(keepends=True)[-1]
    unsigned = CliRunner().invoke(cli, ["anchor", str(scene.data), "--unsigned"])
    scene.anchors.write_text(unsigned.stdout)
    assert scene.with_anchors.exit_code == 0
    rewrite(scene.data, with_body(b"body of message 2", b"body of massage 2"))
    assert scene.with_anchors.exit_code == 1
    (scene.data / NOTARY).unlink()
    nothing = CliRunner().invoke(cli, ["anchor", str(scene.data)])
    assert nothing.exit_code == 1
    assert "signing-key" in nothing.output


def test_a_line_that_is_no_anchor_is_wrong_and_the_others_count(scene: Scene) -> None:
    lines = scene.anchors.read_bytes().splitlines(keepends=True)
    glued = lines[1][:40] + lines[1]
    too_long = b"x" * 40_000 + b"\n"
    scene.anchors.write_bytes(b"".join([lines[0], glued, too_long, *lines[2:]]))
    found = scene.with_anchors
    assert found.exit_code == 1
    assert f"WRONG {scene.anchors}, line 2: this is not an anchor" in found.output
    assert f"{scene.anchors}, line 3" in found.output
    assert "line 4" not in found.output
    assert f"{len(lines) - 1} anchors are in the journal" in found.output
    scene.anchors.write_bytes(40 * b"no anchor\n" + lines[-1])
    assert "30 more lines are not anchors" in scene.with_anchors.output


def test_an_unsigned_anchor_proves_the_block_beside_a_key(scene: Scene) -> None:
    printed = CliRunner().invoke(cli, ["anchor", str(scene.data), "--unsigned"])
    scene.anchors.write_text(printed.stdout)
    words = "--public-key", scene.public, "--anchor", scene.anchors
    found = scene.verify(*words)
    assert found.exit_code == 0, found.output
    assert "unsigned, matches: 1 of the anchors" in found.output
    assert json.loads(scene.verify("--json", *words).stdout)["proven"]["anchors_unsigned"] == 1
    said = json.loads(printed.stdout)
    # A key without its signature is not an honest anchor, nor is another hash.
    for wrong in (said | {"key": "ab" * 8}, said | {"block_hash": "00" * 16}):
        scene.anchors.write_text(json.dumps(wrong))
        found = scene.verify(*words)
        assert found.exit_code == 1
        assert "WRONG the anchor of event" in found.output


def test_a_key_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    done = CliRunner().invoke(cli, ["keygen", str(missing / "key.pem")])
    assert done.exit_code == 1
    assert f"{missing} is not a directory" in done.output
    with no_file_above(10):
        done = CliRunner().invoke(cli, ["keygen", str(tmp_path / "key.pem")])
    assert done.exit_code == 1
    assert f"{tmp_path / 'key.pem.pub'}: File too large" in done.output
    assert not list(tmp_path.iterdir())
    done = CliRunner().invoke(cli, ["keygen", ""])
    assert (done.exit_code, "is empty" in done.output) == (2, True)


def test_an_anchor_that_finds_no_room_is_an_error_that_says_where(scene: Scene) -> None:
    words = [sys.executable, "-m", "daybook.tools.journal_cli", "anchor", str(scene.data)]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "Error: standard output: No space left on device\n"
