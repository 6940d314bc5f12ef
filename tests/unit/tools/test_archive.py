"""The commands `journal archive` on a history whose beginning left the live journal."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from daybook.journal.archive.archive import Archive
from daybook.journal.blocks.format import manifest_name
from daybook.journal.data_directory import LOCK
from daybook.journal.disk import RealDisk
from daybook.journal.pins import PINS, Pin, lowest_pinned_lsn
from daybook.journal.retention import remove, remove_unpinned, sealed_segments
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import segment_names
from daybook.tools.history.inspect import Following
from daybook.tools.journal_cli import cli
from tests.suites.journal_rows import append_some, create
from tests.support import histories

ENVIRONMENT: dict[str, str | None] = {"DAYBOOK_DATA": None, "DAYBOOK_ARCHIVE": None}
NOW = 1_763_640_000_000_000


def journal(*arguments: object, **environment: str) -> Result:
    words = [str(each) for each in arguments]
    return CliRunner().invoke(cli, words, env={**ENVIRONMENT, **environment})


@pytest.fixture
def whole(history: Any) -> Path:
    """The data directory before anything left."""
    data: Path = history.data
    return data


@pytest.fixture
def data(history: Any, tmp_path: Path) -> Path:
    """A data directory with an archive in it; two segments are in the archive alone."""
    data = tmp_path / "data"
    shutil.copytree(history.data, data)
    disk = RealDisk(data / "journal")
    archive = Archive(str(data / "archive"))
    names = segment_names(disk)
    for name in names[:-1]:
        archive.put(disk, name, now=NOW)
    remove(disk, names[:2])
    return data


def archived(data: Path) -> list[str]:
    return segment_names(RealDisk(data / "archive"))


def test_list_shows_what_there_is(data: Path) -> None:
    result = journal("archive", "list", data)
    assert result.exit_code == 0
    assert f"segments in {data}/archive" in result.output
    assert f"{len(archived(data))} segments" in result.output
    told = json.loads(journal("archive", "list", data, "--json").output)
    assert [each["segment"] for each in told["segments"]] == archived(data)
    assert told["segments"][0]["first_lsn"] == 1
    assert (told["url"], told["gaps"]) == (f"{data}/archive", [])


def test_list_names_gaps(data: Path) -> None:
    first, second, third, *_ = archived(data)
    (data / "archive" / second).unlink()
    (data / "archive" / manifest_name(second)).unlink()
    begin, end = (int(name.removesuffix(".seg")) for name in (second, third))
    result = journal("archive", "list", data)
    assert result.exit_code == 1
    assert f"MISSING LSN {begin} to {end - 1}" in result.output
    told = json.loads(journal("archive", "list", data, "--json").output)
    assert told["gaps"] == [[begin, end - 1]]
    assert first == told["segments"][0]["segment"]


def test_an_archive_is_found_as_named_else_as_configured_else_in_the_data(
    data: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "elsewhere"
    (data / "archive").rename(moved)
    nothing = journal("archive", "list", data)
    assert nothing.exit_code == 1
    assert f"{data}/archive: there is no archive here; name the archive" in nothing.output
    (data / "archive").mkdir()
    empty = journal("archive", "list", data)
    assert (empty.exit_code, empty.output) == (1, f"no segment is archived in {data}/archive\n")
    expected = journal("archive", "list", "--archive", moved).output
    assert f"segments in {moved}" in expected
    assert journal("archive", "list", DAYBOOK_ARCHIVE=str(moved)).output == expected
    config = tmp_path / "other.toml"
    config.write_text(f'[journal]\narchive-directory = "{moved}"\n')
    assert journal("archive", "list", "--config", config).output == expected
    assert journal("archive", "list", data).output == empty.output
    # Where `daybook init` puts it.
    config.rename(tmp_path / "broker.toml")
    assert journal("archive", "list", data).output == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[journal]\narchive-directory = 7\n", "broker.toml:2: archive-directory must be"),
        ("[journal\n", "broker.toml:1: is not valid TOML"),
        ("[broker]\n", "broker.toml: there is no archive-directory in [journal]"),
    ],
)
def test_a_configuration_that_does_not_say_is_bad_use(tmp_path: Path, text: str, says: str) -> None:
    config = tmp_path / "broker.toml"
    config.write_text(text)
    result = journal("archive", "list", "--config", config)
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("list", "--archive", ""), "the URL of the archive is empty"),
        (("fetch", "there", "--from", "9", "--to", "3"), "--from 9 is behind --to 3"),
        (("fetch", "there", "--from", "9", "--segment", "x"), "exclude each other"),
    ],
)
def test_bad_use(arguments: tuple[str, ...], says: str) -> None:
    result = journal("archive", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr


def test_an_archive_that_cannot_be_used_is_a_sentence() -> None:
    result = journal("archive", "list", "--archive", "foo://x")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: foo://x: Protocol not known: foo; name a directory")


def test_verify_follows_the_chain_into_the_live_journal(data: Path, history: Any) -> None:
    result = journal("archive", "verify", data)
    assert result.exit_code == 0, result.output
    assert f"followed into the live journal up to LSN {history.last_lsn}" in result.output
    assert result.output.endswith("intact\n")
    alone = json.loads(journal("archive", "verify", "--archive", data / "archive", "--json").output)
    assert (alone["ok"], alone["faults"]) == (True, [])
    assert alone["archived"] == len(archived(data))
    assert alone["report"]["last_lsn"] == alone["last_lsn"] < history.last_lsn


def test_verify_names_what_is_damaged(data: Path) -> None:
    name = archived(data)[1]
    path = data / "archive" / name
    content = bytearray(path.read_bytes())
    content[4100] ^= 1
    path.write_bytes(content)
    result = journal("archive", "verify", data)
    assert result.exit_code == 1
    assert f"DAMAGED {path}, offset 0" in result.output
    assert f"DAMAGED {path}, offset 4096" in result.output
    assert "intact" not in result.output
    for command in (
        ("verify", data, "--with-archive"),
        ("archive", "fetch", data / "got", "--data", data),
    ):
        refused = journal(*command)
        assert refused.exit_code == 1
        assert f"{path}: its SHA-256 is" in refused.stderr


def test_verifying_nothing_proves_nothing(tmp_path: Path) -> None:
    result = journal("archive", "verify", "--archive", tmp_path / "none")
    assert result.exit_code == 1
    assert "no segment is archived here" in result.stderr


def test_an_upload_that_was_cut_short_is_told_and_is_no_fault(data: Path) -> None:
    (data / "archive" / f"{99_999:020d}.seg").write_bytes(b"begun")
    result = journal("archive", "verify", data)
    assert result.exit_code == 0
    assert "99999.seg has no manifest: archiving it was cut short" in result.output


def test_a_journal_is_proven_through_its_archive(data: Path, whole: Path, history: Any) -> None:
    alone = journal("verify", data)
    assert alone.exit_code == 1
    assert "if it was archived, name the archive with --archive" in alone.output
    expected = json.loads(journal("verify", whole, "--json").output)
    for flags in (("--with-archive",), ("--archive", data / "archive")):
        told = json.loads(journal("verify", data, *flags, "--json").output)
        assert told["digest"] == expected["digest"]
        assert told["report"] == expected["report"]
    # The environment says where it is, and not that it is wanted.
    (data / "archive").rename(data / "moved")
    environment = {"DAYBOOK_ARCHIVE": str(data / "moved")}
    assert journal("verify", data, **environment).exit_code == 1
    assert journal("verify", data, "--with-archive", **environment).exit_code == 0


def test_every_question_reaches_into_the_archive(data: Path, whole: Path, history: Any) -> None:
    message = history["several"]
    for words in (
        ("inspect",),
        ("inspect", "--queue", "orders", "--since", "2025-11-20"),
        ("stat",),
    ):
        expected = journal(*words, whole)
        assert expected.exit_code == 0
        assert journal(*words, data).output != expected.output
        assert journal(*words, data, "--with-archive").output == expected.output
    expected = journal("trail", whole, message)
    assert journal("trail", data, message, "--with-archive").output == expected.output
    again = journal("trail", data, message, "--archive", data / "archive")
    assert again.output == expected.output


def test_what_was_fetched_is_read_like_any_journal(data: Path, whole: Path, tmp_path: Path) -> None:
    target = tmp_path / "got"
    result = journal("archive", "fetch", target, "--data", data)
    assert result.exit_code == 0, result.output
    last = json.loads(journal("archive", "list", data, "--json").output)["segments"][-1]["last_lsn"]
    assert result.output == (
        f"fetched {len(archived(data))} segments, LSN 1 to {last}, to {target}/journal\n"
    )
    assert journal("inspect", target).output == journal("inspect", whole, "--to", last).output
    assert journal("verify", target).output.endswith("intact\n")
    assert journal("stat", target).exit_code == 0


def test_a_part_is_fetched_and_says_where_it_begins(data: Path, tmp_path: Path) -> None:
    name = archived(data)[1]
    first = int(name.removesuffix(".seg"))
    for target, flags in (
        ("one", ("--segment", name)),
        ("two", ("--from", first, "--to", first)),
    ):
        told = json.loads(
            journal("archive", "fetch", tmp_path / target, *flags, "--data", data, "--json").output
        )
        assert [each["segment"] for each in told["segments"]] == [name]
        verified = journal("verify", tmp_path / target)
        assert verified.exit_code == 0
        assert f"history before LSN {first} is not among them" in verified.output
        inspected = journal("inspect", tmp_path / target, "--limit", 1)
        assert inspected.output.split()[0] == str(first)
    outside = journal("archive", "fetch", tmp_path / "three", "--from", 9999, "--data", data)
    assert outside.exit_code == 1
    last = json.loads(journal("archive", "list", data, "--json").output)["segments"][-1]["last_lsn"]
    assert f"the archive does not have LSN 9999: it has 1 to {last}" in outside.stderr
    partly = journal("archive", "fetch", tmp_path / "three", "--to", 9999, "--data", data)
    assert f"does not have all of LSN 1 to 9999: it has 1 to {last}" in partly.stderr
    assert not (tmp_path / "three").exists()


@pytest.mark.parametrize(
    "span",
    [
        ("--from", 2),
        ("--from", 2, "--to", 9),
        ("--to", 9999),
        ("--until", "2020-01-01"),
        ("--since", "2020-01-01"),
        ("--message", 5),
    ],
    ids=str,
)
def test_a_span_that_begins_before_the_journal_is_said(
    data: Path, whole: Path, span: tuple[object, ...]
) -> None:
    first = int(segment_names(RealDisk(data / "journal"))[0].removesuffix(".seg"))
    answer = journal("inspect", data, *span)
    assert answer.exit_code == 0
    assert f"note: the history before event {first} left the journal, and" in answer.stderr
    for words in (
        ("inspect", data, *span, "--with-archive"),
        ("inspect", whole, *span),
        ("inspect", data, "--from", first),
        ("inspect", data, "--since", "2100-01-01"),
        ("inspect", data, "--message", first + 5),
        ("inspect", data),
    ):
        assert "left the journal" not in journal(*words).stderr, words


def test_readers_of_a_served_directory_pin_it_and_let_go(data: Path) -> None:
    journal("stat", data)
    assert not (data / PINS).exists()
    (data / LOCK).touch()
    for command in ("stat", "verify", "inspect"):
        assert journal(command, data, "--with-archive").exit_code == 0
        assert list((data / PINS).iterdir()) == []
    assert journal("archive", "verify", data).exit_code == 0
    assert list((data / PINS).iterdir()) == []


def test_who_follows_lets_go_of_what_was_read(data: Path) -> None:
    (data / LOCK).touch()
    disk = RealDisk(data / "journal")
    newest = int(segment_names(disk)[-1].removesuffix(".seg"))
    with Pin(data) as pin:
        wait = Following(disk, pin, seconds=0)
        assert wait()
        # The newest events have perhaps not been read yet.
        assert lowest_pinned_lsn(data) == 1
        assert wait()
        assert lowest_pinned_lsn(data) == newest


@pytest.mark.parametrize("proven", [False, True])
def test_who_follows_is_never_overtaken_by_retention(tmp_path: Path, proven: bool) -> None:
    (tmp_path / LOCK).touch()
    disk = RealDisk(tmp_path / "journal")
    disk.create()
    writer = create(disk)
    written = append_some(writer, 30, count=20)
    removed: list[str] = []
    # More is written at each look, sometimes several segments, and all that may leave does.
    rounds = [0, 1, 40, 0, 0, 90, 1, 0, 60, 0, 0, 0]
    with Pin(tmp_path) as pin:
        wait = Following(disk, pin, seconds=0)

        def follow() -> bool:
            if not rounds:
                return False
            # Between the reader's last look and its waiting.
            written.extend(append_some(writer, rounds.pop(0), count=20))
            wait()
            removed.extend(remove_unpinned(disk, tmp_path, list(sealed_segments(disk))))
            return True

        told = [event for block in read_blocks(disk, proven=proven, follow=follow)
                for event in block.events()]  # fmt: skip
    assert told == written[: len(told)]
    assert len(written) - len(told) == (20 if proven else 0)
    assert len(removed) > 5


def test_an_archive_that_is_none_is_not_passed_over(tmp_path: Path, data: Path) -> None:
    """Without it less would be proven than was asked for."""
    answer = journal("verify", data, "--archive", tmp_path / "elsewhere")
    assert answer.exit_code != 0
    assert "no segment is archived here" in answer.output


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A short journal with another data id."""
    monkeypatch.setattr(histories, "HISTORY_ID", bytes(16))
    return histories.write_history(tmp_path / "stranger", histories.some_history(3, 20))


@pytest.mark.parametrize(
    "command",
    [
        ("inspect",),
        ("inspect", "--at", "100"),
        ("diff", "50", "100"),
        ("trail", "100"),
        ("audit",),
        ("stat",),
        ("verify",),
        ("catalog",),
        ("sql", "SELECT count(*) FROM events"),
        ("fork", "{}/fork", "--at", "100"),
        ("export", "{}/export", "--from", "10", "--to", "100"),
        ("archive", "list"),
        ("archive", "verify"),
        ("archive", "fetch", "{}/fetched"),
        ("archive", "restore", "{}/restored"),
    ],
    ids=" ".join,
)
def test_every_reader_refuses_the_archive_of_another_directory(
    data: Path, stranger: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    words = [word.format(tmp_path) for word in command]
    before = sorted(tmp_path.iterdir())
    result = journal(*words, "--data", stranger, "--archive", data / "archive")
    assert result.exit_code == 1, result.output
    said = " ".join((result.output + result.stderr).split())
    assert f"{data}/archive: it is the archive of another data directory" in said
    assert "Restore the segment" not in said
    assert "followed" not in said
    assert sorted(tmp_path.iterdir()) == before


def test_an_older_copy_of_the_directory_is_not_read_as_one_with_the_archive(
    data: Path, whole: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    for name in segment_names(RealDisk(copy / "journal"))[2:]:
        (copy / "journal" / name).unlink()
    for command in ("inspect", "stat", "verify", ("archive", "verify"), ("archive", "list")):
        words = (command,) if isinstance(command, str) else command
        result = journal(*words, "--data", copy, "--archive", data / "archive")
        assert result.exit_code == 1
        assert "older copy, or lost its end" in " ".join((result.output + result.stderr).split())
    fetched = tmp_path / "fetched"
    assert (
        journal(
            "archive", "fetch", fetched, "--data", copy, "--archive", data / "archive"
        ).exit_code
        == 0
    )
    assert journal("verify", fetched).exit_code == 0
