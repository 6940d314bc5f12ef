"""Exports of a journal whose periods were signed by different keys, and anchors of them."""

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from daybook.journal.data_directory import JOURNAL
from daybook.recovery.signing.export_proof import PROOF
from daybook.recovery.signing.signing_keys import load_public, make_pair
from daybook.recovery.signing.statements import key_id
from daybook.server.history.notary_messages import Changed, Configure
from daybook.tools.journal_cli import cli
from tests.support.forging.signed import SignedJournal

KEYS = ("first", "second", "third")


class Scene:
    """A journal of three periods: signed changes link the first two keys, nothing the third."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.export = folder / "export"
        self.anchors = folder / "anchors"

    def make(self) -> None:
        for name in KEYS:
            make_pair(self.folder / name)
        journal = SignedJournal(self.data, self.folder / "first")
        ends = []
        for name in KEYS:
            if name == "third":
                # As after a change while the broker was stopped.
                journal.notary.configure(Configure(str(self.folder / name), []))
                assert journal.take(Changed)
            elif name != "first":
                journal.use(self.folder / name)
            for number in range(2):
                journal.send(b"%d of the period of " % number + name.encode())
                journal.checkpoint()
            ends.append(journal.pen.broker.lsn)
        journal.stop()
        journal.write_anchors(self.anchors)
        (self.folder / "ends").write_text(json.dumps(ends))

    def public(self, name: str) -> Path:
        return self.folder / f"{name}.pub"

    def id_of(self, name: str) -> str:
        return key_id(load_public(self.public(name)))

    def periods(self) -> list[tuple[int, int]]:
        ends = json.loads((self.folder / "ends").read_text())
        # From the first message of each on, without what the change itself wrote.
        return [(first + 3, last) for first, last in zip([0, *ends], ends, strict=False)]

    def make_export(self, *words: object) -> Result:
        done = run("export", self.data, self.export, *words)
        assert done.exit_code == 0, done.output
        return done

    def verify(self, *names: str, anchors: bool = False) -> Result:
        words = [word for name in names for word in ("--public-key", self.public(name))]
        return run("verify", self.export, *words, *(["--anchor", self.anchors] * anchors))

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in (self.export / PROOF).read_bytes().splitlines()]

    def write_anchors(self, *anchors: dict[str, object]) -> None:
        self.anchors.write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in anchors))

    def known_anchors(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.anchors.read_bytes().splitlines()]


def run(*words: object) -> Result:
    done = CliRunner().invoke(cli, [*map(str, words)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    Scene(folder).make()
    return folder


@pytest.fixture
def scene(made: Path, tmp_path: Path) -> Scene:
    shutil.copytree(made, tmp_path / "scene")
    return Scene(tmp_path / "scene")


@pytest.mark.parametrize("redacted", [(), ("--redact", "bodies")])
@pytest.mark.parametrize("period", [0, 1])
def test_either_of_two_linked_keys_proves_an_export_of_one_period(
    scene: Scene, period: int, redacted: tuple[str, ...]
) -> None:
    """The change of the key is in neither range: the proof has it all the same."""
    first, _ = scene.periods()[period]
    signed_to = scene.known_anchors()[2 * period + 1]["lsn"]
    scene.make_export("--from", first, "--to", signed_to, *redacted)
    for name in ("first", "second"):
        found = scene.verify(name)
        assert found.exit_code == 0, found.output
        assert "\nproven" in found.output
    found = scene.verify("third")
    assert found.exit_code == 1
    assert f"by the key {scene.id_of(KEYS[period])}, which was not given" in found.output
    assert "give its public key, too, with --public-key" in found.output


def test_a_key_that_nothing_links_must_be_given(scene: Scene) -> None:
    scene.make_export("--redact", "bodies")
    found = scene.verify("second")
    assert found.exit_code == 1
    missing = [line for line in found.output.splitlines() if "WRONG" in line]
    assert len(missing) == 1, "one line for each key, however many statements there are"
    assert "3 signatures up to events" in missing[0]
    assert scene.id_of("third") in missing[0]
    told = run(
        "verify", scene.export, "--public-key", scene.public("second"),
        "--public-key", scene.public("third"), "--json",
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["keys"] == sorted(map(scene.id_of, KEYS))


def test_a_journal_names_a_key_that_nothing_links_once(scene: Scene) -> None:
    found = run("verify", scene.data, "--public-key", scene.public("first"))
    assert found.exit_code == 1
    assert found.output.count(scene.id_of("third")) == 1
    assert "3 signatures up to events" in found.output
    both = "--public-key", scene.public("first"), "--public-key", scene.public("third")
    assert run("verify", scene.data, *both).exit_code == 0


def test_a_forged_change_links_nothing(scene: Scene) -> None:
    first, last = scene.periods()[0]
    scene.make_export("--from", first, "--to", last)
    lines = scene.lines()
    (change,) = (line for line in lines if line["type"] == "change")
    change["signature_new"], change["signature_old"] = (
        change["signature_old"],
        change["signature_new"],
    )
    packed = b"".join(json.dumps(line).encode() + b"\n" for line in lines[:-1])
    end = {"type": "end", "sha256": sha256(packed).hexdigest()}
    (scene.export / PROOF).write_bytes(packed + json.dumps(end).encode() + b"\n")
    found = scene.verify("second")
    assert found.exit_code == 1
    assert f"event {change['lsn']}: the change of the key is not signed by both" in found.output
    assert scene.id_of("first") in found.output
    # Among the statements there is no place for one.
    lines[2:-1] = [*lines[3:-1], change]
    packed = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    (scene.export / PROOF).write_bytes(packed)
    assert "does not belong there" in scene.verify("first").output


def test_an_export_without_a_change_of_key_has_the_format_of_before(tmp_path: Path) -> None:
    make_pair(tmp_path / "first")
    journal = SignedJournal(tmp_path / "data", tmp_path / "first")
    journal.send(b"x")
    journal.checkpoint()
    journal.stop()
    scene = Scene(tmp_path)
    scene.make_export()
    assert scene.lines()[0]["format"] == 1
    assert scene.verify("first").exit_code == 0


def test_a_damaged_segment_elsewhere_is_named_by_the_export(scene: Scene) -> None:
    first, last = scene.periods()[2]
    oldest = min((scene.data / JOURNAL).glob("*.seg"))
    assert int(oldest.stem) < first
    spoilt = bytearray(oldest.read_bytes())
    spoilt[200:6000] = bytes(5800)
    oldest.write_bytes(spoilt)
    begin = int(sorted((scene.data / JOURNAL).glob("*.seg"))[1].stem)
    done = scene.make_export("--from", max(first, begin), "--to", last)
    assert f"changes of the signing key in {oldest.name} are not in the export" in done.stderr
    assert scene.verify("third").exit_code == 0


def test_an_anchor_by_a_key_that_is_not_known_is_not_passed_over(scene: Scene) -> None:
    scene.make_export()
    found = scene.verify("second", anchors=True)
    assert found.exit_code == 1
    assert "3 anchors of events" in found.output
    assert found.output.count(f"by the key {scene.id_of('third')}, which was not given") == 2
    assert found.output.count("--public-key") == 2
    told = scene.verify("second", "third", anchors=True)
    assert told.exit_code == 0, told.output


def test_anchors_without_any_key_prove_the_blocks_and_say_so(scene: Scene) -> None:
    scene.make_export()
    found = scene.verify(anchors=True)
    assert found.exit_code == 0, found.output
    assert "their signer was not checked" in found.output
    journal = run("verify", scene.data, "--anchor", scene.anchors)
    assert journal.exit_code == 0
    assert "their signer was not checked" in journal.output


def test_every_anchor_of_one_event_is_compared(scene: Scene) -> None:
    """A sound anchor does not hide another one of the same event."""
    scene.make_export()
    sound = scene.known_anchors()[1]
    forged = sound | {"block_hash": "00" * 16}
    for anchors in ((sound, forged), (forged, sound)):
        scene.write_anchors(*anchors)
        found = scene.verify(anchors=True)
        assert found.exit_code == 1
        assert f"the anchor of event {sound['lsn']} is of another history" in found.output


def test_an_anchor_that_fits_nowhere_is_wrong(scene: Scene) -> None:
    scene.make_export()
    sound = scene.known_anchors()[-1]
    scene.write_anchors(sound, sound | {"data_id": "ab" * 16})
    found = scene.verify(anchors=True)
    assert found.exit_code == 1
    assert f"of another data directory ({'ab' * 16})" in found.output
    own = ("verify", scene.export, "--anchor", scene.anchors, "--data-id")
    assert run(*own, sound["data_id"]).output.count("WRONG") == 0
    assert "not compared: 1 of the anchors" in run(*own, sound["data_id"]).output
    assert "and not " + "ab" * 16 in run(*own, "ab" * 16).output
    scene.write_anchors(sound | {"data_id": "ab" * 16})
    assert "none of the anchors is of" in run(*own, sound["data_id"]).output
    scene.write_anchors(sound, sound | {"time": 1})
    found = scene.verify(*KEYS, anchors=True)
    assert found.exit_code == 1
    assert "the signature does not match" in found.output
    blocks = {line["first_lsn"] for line in scene.lines() if line["type"] == "block"}
    within = next(lsn for lsn in range(2, 100) if lsn not in blocks) - 1
    scene.write_anchors(sound, sound | {"lsn": within})
    found = scene.verify(anchors=True)
    assert found.exit_code == 1
    assert f"the anchor of event {within}: no block of the export ends there" in found.output


def test_what_an_anchor_cannot_prove_is_said(scene: Scene) -> None:
    first, last = scene.periods()[0]
    scene.make_export("--from", first, "--to", last, "--redact", "bodies")
    found = scene.verify(anchors=True)
    assert found.exit_code == 1
    assert "matches without proof: 2 of the anchors" in found.output
    assert "not compared: 5 of the anchors" in found.output
    assert "NOT PROVEN" in found.output
    assert scene.verify("second", anchors=True).exit_code == 0
    of_it = scene.known_anchors()[0] | {"block_hash": "00" * 16}
    scene.write_anchors(of_it)
    found = scene.verify("second", anchors=True)
    assert "is of another history" in found.output
    assert found.exit_code == 1


def test_an_anchor_of_other_events_must_be_signed_too(scene: Scene) -> None:
    first, last = scene.periods()[0]
    scene.make_export("--from", first, "--to", scene.known_anchors()[1]["lsn"])
    changed = scene.known_anchors()[3] | {"time": 1}
    assert changed["lsn"] > last  # type: ignore[operator]
    scene.write_anchors(changed)
    found = scene.verify("first", anchors=True)
    assert found.exit_code == 1
    assert f"the anchor of event {changed['lsn']}: the signature does not match" in found.output


def test_a_proof_that_is_a_directory_is_no_journal(scene: Scene) -> None:
    scene.make_export()
    (scene.export / PROOF).unlink()
    (scene.export / PROOF).mkdir()
    for words in (("verify",), ("inspect",), ("trail", "5")):
        done = run(words[0], scene.export, *words[1:])
        assert done.exit_code == 1
        assert f"{scene.export / PROOF}: Is a directory" in done.output
