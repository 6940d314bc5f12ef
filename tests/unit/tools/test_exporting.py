"""An export proves itself far from its journal, also without what must not be shown."""

import json
import re
import shutil
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result

from daybook.engine import commands as c
from daybook.history.exports import export
from daybook.journal.blocks.format import manifest_name
from daybook.journal.data_directory import DATA_ID, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.recovery.signing.export_proof import PROOF
from daybook.recovery.signing.leaves import BODIES, HEADERS, hash_of, leaf_of
from daybook.recovery.signing.signing_keys import make_pair
from daybook.tools.journal_cli import cli
from tests.support.forging.signed import SignedJournal, rewrite
from tests.support.stored.full_disk import no_file_above
from tests.unit.tools.conftest import Pen


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [*map(str, words)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed journal with blocks of one and of several events, and some that no one signed."""
    folder = tmp_path_factory.mktemp("made")
    make_pair(folder / "key")
    journal = SignedJournal(folder / "data", folder / "key")
    for number in range(5):
        journal.send(b"secret body %d" % number)
        journal.pen.do(c.Begin(journal.connection, f"t{number}"))
        for part in range(3):
            journal.pen.do(
                c.Send(
                    journal.connection,
                    "stock",
                    b"content-type:text/plain\n",
                    b"part %d" % part,
                    transaction=f"t{number}",
                )
            )
        journal.pen.do(c.Commit(journal.connection, f"t{number}"))
        journal.pen.journal.mark(journal.pen.now)
        journal.checkpoint()
    journal.send(b"secret and not signed")
    journal.pen.close()
    journal.write_anchors(folder / "anchors")
    return folder


@pytest.fixture
def scene(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "scene")
    return tmp_path / "scene"


def exported(scene: Path, *words: str) -> Path:
    target = scene / "export"
    done = run("export", scene / "data", target, "--from", "9", "--to", "30", *words)
    assert done.exit_code == 0, done.output
    # From here on nothing but the export and the public key is needed.
    shutil.move(scene / "data", scene / "away")
    return target


def verified(scene: Path, *words: str | Path) -> Result:
    return run("verify", scene / "export", "--public-key", scene / "key.pub", *words)


@pytest.mark.parametrize(
    "redacted", [(), ("--redact", "bodies"), ("--redact", "bodies", "--redact", "headers")]
)
def test_an_export_is_proven_without_its_journal(scene: Path, redacted: tuple[str, ...]) -> None:
    target = exported(scene, *redacted)
    found = verified(scene)
    assert found.exit_code == 0, found.output
    assert "proven" in found.output
    everything = b"".join(
        bytes(block.heap()) for block in read_blocks(RealDisk(target / JOURNAL)) if block.count
    )
    assert (b"secret body" in everything) != bool(redacted)
    assert (b"text/plain" in everything) != ("headers" in redacted)
    # The structure stays: other commands read it.
    told = run("inspect", target, "--json")
    assert told.exit_code == 0
    assert told.output.count('"Routed"') > 3


def test_without_a_key_nothing_is_claimed(scene: Path) -> None:
    target = exported(scene)
    found = run("verify", target)
    assert found.exit_code == 0
    assert "show its author" in found.output


def test_an_anchor_proves_whole_blocks_before_it(scene: Path) -> None:
    exported(scene)
    found = run("verify", scene / "export", "--anchor", scene / "anchors", "--json")
    told = json.loads(found.stdout)
    assert told["anchors"] > 1
    assert told["proven"][0][0] == told["report"]["first_lsn"]


def test_an_unsigned_anchor_proves_an_export_beside_a_key_too(scene: Path) -> None:
    done = run("export", scene / "data", scene / "export")
    assert done.exit_code == 0
    assert verified(scene).exit_code == 1
    (scene / "newest").write_text(run("anchor", scene / "data", "--unsigned").stdout)
    found = verified(scene, "--anchor", scene / "newest")
    assert found.exit_code == 0, found.output
    assert "unsigned, matches: 1 of the anchors" in found.output


def test_what_is_not_signed_yet_is_not_proven(scene: Path) -> None:
    done = run("export", scene / "data", scene / "export", "--redact", "bodies")
    assert "cannot be proven" in done.output
    found = verified(scene)
    assert found.exit_code == 1
    assert "NOT PROVEN" in found.output
    # Its advice helps.
    (end,) = re.findall(r"--to (\d+) leaves them out", done.output)
    shutil.rmtree(scene / "export")
    exported(scene, "--redact", "bodies", "--to", end)
    assert verified(scene).exit_code == 0


def test_a_key_that_is_not_the_broker_s_proves_nothing(scene: Path) -> None:
    exported(scene, "--redact", "bodies")
    make_pair(scene / "other")
    found = run("verify", scene / "export", "--public-key", scene / "other.pub")
    assert found.exit_code == 1
    assert "was not given" in found.output


def lines_of(target: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (target / PROOF).read_bytes().splitlines()]


def write_lines(target: Path, lines: list[dict[str, object]]) -> None:
    """Write a forged proof, whose own hash is right."""
    packed = b"".join(json.dumps(line).encode() + b"\n" for line in lines[:-1])
    end = {"type": "end", "sha256": sha256(packed).hexdigest()}
    (target / PROOF).write_bytes(packed + json.dumps(end).encode() + b"\n")


def test_a_body_that_is_shown_later_can_be_compared(scene: Path) -> None:
    target = exported(scene, "--redact", "bodies")
    hashes = [
        b64decode(str(line["bodies"])) for line in lines_of(target) if line["type"] == "block"
    ]
    assert hash_of(b"secret body 1") in hashes


def test_no_other_body_fits_the_proof(scene: Path) -> None:
    target = exported(scene, "--redact", "bodies")
    lines = lines_of(target)
    for line in lines:
        if line.get("bodies"):
            count = len(b64decode(str(line["bodies"]))) // 32
            line["bodies"] = b64encode(count * hash_of(b"another body")).decode()
            break
    write_lines(target, lines)
    assert "not those that were signed" in verified(scene).output
    assert verified(scene).exit_code == 1


def test_a_block_that_hides_behind_its_leaf_is_not_proven(scene: Path) -> None:
    target = exported(scene, "--redact", "bodies")
    leaves = {
        block.first_lsn: leaf_of(block).hash().hex()
        for block in read_blocks(RealDisk(scene / "away" / JOURNAL)) if block.count
    }  # fmt: skip
    lines = lines_of(target)
    at = next(at for at, line in enumerate(lines) if line["type"] == "block")
    hidden = lines[at]
    lines[at] = {"type": "leaf", "leaf": leaves[int(str(hidden["first_lsn"]))]}
    lines[at - 1 : at - 1] = [{"type": "unsigned"}, hidden]
    write_lines(target, lines)
    found = verified(scene)
    assert found.exit_code == 1
    assert "NOT PROVEN" in found.output


def test_rows_that_are_not_the_signed_ones_are_found(scene: Path) -> None:
    """The rows that are shown are compared with those in the proof, which are signed."""
    target = exported(scene, "--redact", "bodies")
    shutil.move(target, scene / "first")
    shutil.move(scene / "away", scene / "data")
    rewrite(
        scene / "data",
        lambda event: event._replace(row=(*event.row[:-1], event.row[-1] + 1)),
    )
    forged = exported(scene, "--redact", "bodies")
    shutil.copy(scene / "first" / PROOF, forged / PROOF)
    found = verified(scene)
    assert found.exit_code == 1
    assert "its events are not those that were signed" in found.output


@pytest.mark.parametrize("redacted", [(), ("--redact", "bodies")])
def test_no_flipped_bit_in_an_export_is_taken_for_proof(
    scene: Path, redacted: tuple[str, ...]
) -> None:
    target = exported(scene, *redacted)
    random = Random(3)
    (segment,) = (target / JOURNAL).glob("*.seg")
    manifest = segment.with_name(manifest_name(segment.name))
    for path in (target / PROOF, segment, target / DATA_ID, manifest):
        sound = path.read_bytes()
        for position in random.sample(range(len(sound)), min(40, len(sound))):
            if path == segment and not sound[position - 8 : position + 8].strip(b"\0"):
                continue
            spoilt = bytearray(sound)
            spoilt[position] ^= 1 << random.randrange(8)
            path.write_bytes(spoilt)
            found = verified(scene)
            assert found.exit_code == 1, (path.name, position)
            assert found.exception is None or isinstance(found.exception, SystemExit)
        path.write_bytes(sound)


def test_no_change_of_what_describes_an_export_passes(scene: Path) -> None:
    target = exported(scene)
    (manifest,) = (target / JOURNAL).glob("*.json")
    for path in (target / DATA_ID, manifest):
        sound = path.read_bytes()
        changes = [sound[:-5], b"", sound.replace(b"0", b"1", 1), sound + b"x" * 70_000]
        changes += [sound.replace(b'"archived_at": 0', b'"archived_at": 7')]
        for changed in changes:
            if changed == sound:
                continue
            path.write_bytes(changed)
            found = verified(scene)
            assert found.exit_code == 1, changed
            assert f"WRONG {path}" in found.output
            assert "\nproven" not in found.output
            assert run("verify", target).exit_code == 1
        path.write_bytes(sound)
    assert verified(scene).exit_code == 0
    shutil.copy(manifest, target / JOURNAL / "00000000000000000001.seg.json")
    assert "its segment is missing" in verified(scene).output
    (target / JOURNAL / "00000000000000000001.seg.json").unlink()
    (target / DATA_ID).unlink()
    assert "cannot be read" in verified(scene).output


def test_an_export_is_whole_or_not_there(scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(export._Export, "_write_proof", interrupt)
    run("export", scene / "data", scene / "export")
    assert sorted(each.name for each in scene.iterdir()) == ["anchors", "data", "key", "key.pub"]


def test_an_export_that_cannot_be_written_names_its_place(scene: Path) -> None:
    done = run("export", scene / "data", scene / "missing" / "export")
    assert (done.exit_code, f"{scene / 'missing'} is not a directory" in done.output) == (1, True)
    with no_file_above(1000):
        done = run("export", scene / "data", scene / "export")
    assert done.exit_code == 1
    assert f"{scene / 'export'}: File too large" in done.output
    assert sorted(each.name for each in scene.iterdir()) == ["anchors", "data", "key", "key.pub"]


@pytest.mark.parametrize(
    ("words", "why", "code"),
    [
        (("--from", "500"), "range", 2),
        (("--from", "20", "--to", "10"), "range", 2),
        (("--to", "4000"), "--to 4000 is too far", 1),
    ],
)
def test_a_range_that_there_is_not_is_refused(
    scene: Path, words: tuple[str, ...], why: str, code: int
) -> None:
    done = run("export", scene / "data", scene / "export", *words)
    assert (done.exit_code, why in done.output) == (code, True), done.output
    inside = run("export", scene / "data", scene / "data" / "x")
    assert inside.exit_code == 2
    (scene / "there").mkdir()
    assert "exists already" in run("export", scene / "data", scene / "there").output


def test_what_a_killed_broker_wrote_last_is_left_out_and_named(tmp_path: Path) -> None:
    pen = Pen(tmp_path / "data")
    pen.do(c.Start(version="1"))
    connection = pen.connect("alice")
    pen.send(connection, "orders", b"durable")
    proven = pen.broker.lsn
    pen.send(connection, "orders", b"nobody knows")
    newest = pen.broker.lsn
    # The last block is followed by nothing, as after a kill.
    assert newest == proven + 1
    why = f"event {newest} is left out, because no later block proves"
    for words in ((), ("--to", "2100-01-01")):
        done = run("export", tmp_path / "data", tmp_path / f"export{len(words)}", *words)
        assert done.exit_code == 0, done.output
        assert f"events 1 to {proven} in" in done.output
        assert why in done.output
        assert "none of it is signed" in done.output
    done = run("export", tmp_path / "data", tmp_path / "json", "--json")
    assert json.loads(done.stdout)["left_out"] == [proven + 1, newest]
    done = run("export", tmp_path / "data", tmp_path / "x", "--to", str(newest))
    assert done.exit_code == 1
    assert f"the last event that can be exported is {proven}" in done.output
    assert why in done.output
    # An export is whole, so one of it is, too.
    done = run("export", tmp_path / "export0", tmp_path / "again")
    assert f"events 1 to {proven} in" in done.output
    assert "left out" not in done.output
    pen.close()


def test_a_journal_without_a_proven_event_has_nothing_to_export(tmp_path: Path) -> None:
    pen = Pen(tmp_path / "data")
    done = run("export", tmp_path / "data", tmp_path / "x")
    assert (done.exit_code, "no event that can be exported" in done.output) == (1, True)
    pen.do(c.Start(version="1"))
    done = run("export", tmp_path / "data", tmp_path / "x")
    assert done.exit_code == 1
    assert "event 1 is left out" in done.output
    pen.close()


def test_heaps_are_where_the_layout_has_them() -> None:
    assert (HEADERS, BODIES) == (1, 2)
