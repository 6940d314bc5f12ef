"""The trail of every message by catalogs is the trail by reading everything."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.facts import events
from daybook.engine.facts.events import BODY_OMITTED, FLAGS, KIND, chunk_lsns
from daybook.engine.messages.headers import as_dict
from daybook.history import trail
from daybook.history.contents import WithBody, WithHeader, found_messages
from daybook.history.descriptions import line
from daybook.history.event_finder import EventFinder
from daybook.history.initial_state import EVERYTHING
from daybook.history.missing_catalogs import Order, make
from daybook.history.moments import last_lsn
from daybook.history.selection import Inspection, Question
from daybook.history.topology import Topology
from daybook.history.verification.catalog_verification import wrong_catalogs
from daybook.journal.data_directory import CATALOGS, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.paging.catalogs import catalog_making
from daybook.paging.catalogs.catalog_making import ALL, Job, missing_catalogs, next_piece
from tests.support.compiled import replaces_parts
from tests.support.histories import HISTORY_ID, some_history, write_history
from tests.support.scenario import Step, play, steps
from tests.support.world import Event, World

FOUND_AT_LEAST = 20


def make_catalogs(data: Path) -> list[Path]:
    """Make all catalogs of a history, with pieces of the newest segment; return their files."""
    disk = RealDisk(data / JOURNAL)
    for job in missing_catalogs(disk, HISTORY_ID, data / CATALOGS):
        make(Order(str(data), "", ALL, job))
    while make(
        Order(str(data), "", ALL, next_piece(disk, HISTORY_ID, data / CATALOGS, last_lsn(disk)))
    ):
        pass
    return sorted((data / CATALOGS).glob("*"))


def compare(data: Path, journal: list[Event], few: bool = False) -> int:
    """Compare the trails of all messages; return how many there are."""
    disk = RealDisk(data / JOURNAL)
    finder = EventFinder(disk, data)
    messages = [event.lsn for event in journal if event.row[KIND] == events.ROUTED]
    for message in messages[:: 7 if few else 1]:
        read = trail.follow(EventFinder(disk), message, data)
        asked = trail.follow(finder, message, data)
        assert asked == read, message
    finder.close()
    return len(messages)


@given(
    scenario=steps,
    cuts=st.lists(st.integers(1, 300), max_size=12),
    segment_bytes=st.sampled_from([1 << 13, 1 << 14, 1 << 16]),
    missing=st.lists(st.integers(0, 30), max_size=3),
)
def test_the_trail_by_catalogs_is_the_trail_by_reading(
    scenario: list[Step], cuts: list[int], segment_bytes: int, missing: list[int]
) -> None:
    world = World()
    play(world, scenario)
    world.turn()
    with TemporaryDirectory() as folder, patch.object(catalog_making, "PIECE_BYTES", 600):
        data = write_history(Path(folder), world.journal, cuts=cuts, segment_bytes=segment_bytes)
        found = make_catalogs(data)
        for number in missing:
            if number < len(found):
                found[number].unlink(missing_ok=True)
        compare(data, world.journal)


def test_the_trails_of_a_long_history(tmp_path: Path) -> None:
    journal = some_history(3, 400)
    data = write_history(tmp_path, journal, cuts=range(30, len(journal), 30), segment_bytes=1 << 14)
    with patch.object(catalog_making, "PIECE_BYTES", 4000):
        found = make_catalogs(data)
    assert len(found) > 3
    assert compare(data, journal) > FOUND_AT_LEAST
    Random(1).choice(found).unlink()
    compare(data, journal, few=True)


def test_no_flipped_byte_changes_an_answer(tmp_path: Path) -> None:
    journal = some_history(5, 120)
    data = write_history(tmp_path, journal, cuts=range(40, len(journal), 40), segment_bytes=1 << 13)
    with patch.object(catalog_making, "PIECE_BYTES", 3000):
        found = make_catalogs(data)
    disk = RealDisk(data / JOURNAL)
    messages = [event.lsn for event in journal if event.row[KIND] == events.ROUTED][::9]
    expected = {message: trail.follow(EventFinder(disk), message, data) for message in messages}
    value = WithHeader("stock", "pears")
    pears = list(found_messages(EventFinder(disk, data), value))
    assert pears
    random = Random(11)
    for path in (found[0], found[-1]):
        whole = path.read_bytes()
        places = random.sample(range(len(whole)), min(len(whole), 150))
        for place in [*range(40), *places]:
            flipped = bytearray(whole)
            flipped[place] ^= 1 << place % 8
            path.write_bytes(flipped)
            finder = EventFinder(disk, data)
            message = random.choice(messages)
            assert trail.follow(finder, message, data) == expected[message], (path, place)
            if place % 5 == 0:
                assert list(found_messages(finder, value)) == pears, (path, place)
            finder.close()
        for size in (0, 10, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:size])
            finder = EventFinder(disk, data)
            assert list(found_messages(finder, value)) == pears
            assert finder.notes or size > 10
            finder.close()
        path.write_bytes(whole)


def test_catalogs_of_another_journal_are_passed_over(tmp_path: Path) -> None:
    one, two = some_history(7, 120), some_history(8, 120)
    cuts = range(40, 400, 40)
    data = write_history(tmp_path / "one", one, cuts=cuts, segment_bytes=1 << 13)
    other = write_history(tmp_path / "two", two, cuts=cuts, segment_bytes=1 << 13)
    make_catalogs(other)
    (other / CATALOGS).rename(data / CATALOGS)
    finder = EventFinder(RealDisk(data / JOURNAL), data)
    assert finder.catalogs is None
    assert any("another journal" in note for note in finder.notes)
    finder.close()


def found_by_reading(journal: list[Event], wanted: Callable[[Event], bool]) -> list[int]:
    routed = (event for event in journal if event.row[KIND] == events.ROUTED)
    whole = (event for event in routed if not event.row[FLAGS] & BODY_OMITTED)
    return [event.lsn for event in whole if wanted(event)]


def test_messages_are_found_by_headers_and_bodies(tmp_path: Path) -> None:
    journal = some_history(3, 300)
    data = write_history(tmp_path, journal, cuts=range(30, len(journal), 30), segment_bytes=1 << 14)
    disk = RealDisk(data / JOURNAL)
    bodies = {
        event.lsn: b"".join(journal[at - 1].body for at in chunk_lsns(event.decoded)) or event.body
        for event in journal
        if event.row[KIND] == events.ROUTED
    }

    def check() -> None:
        finder = EventFinder(disk, data)
        for name, value in [
            ("stock", "pears"), ("path:to\\it", "a:b\nc\r\\"), ("ü", "ß"), ("kind", "twice"),
            ("kind", "big"), ("stock", "nothing"), ("nothing", "pears"),
        ]:  # fmt: skip
            wanted = found_by_reading(
                journal, lambda event, n=name, v=value: as_dict(event.headers).get(n) == v
            )
            assert list(found_messages(finder, WithHeader(name, value))) == wanted, (name, value)
        for body in list(dict.fromkeys(bodies.values()))[::7]:
            wanted = found_by_reading(journal, lambda event, b=body: bodies[event.lsn] == b)
            sha256 = hashlib.sha256(body).digest()
            for size in (len(body), None):
                found = found_messages(finder, WithBody(disk, sha256, size))
                assert list(found) == wanted
        finder.close()

    check()
    made = make_catalogs(data)
    check()
    made[0].unlink()
    check()
    for headers in ("stock", "", "kind, ü"):
        for path in (data / CATALOGS).iterdir():
            path.unlink()
        for job in missing_catalogs(disk, HISTORY_ID, data / CATALOGS):
            make(Order(str(data), "", headers, job))
        check()
    with (
        patch.object(catalog_making, "HEADER_SHARE", 1 << 30),
        patch.object(catalog_making, "NAMES_MAX", 1),
    ):
        for path in (data / CATALOGS).iterdir():
            path.unlink()
        for job in missing_catalogs(disk, HISTORY_ID, data / CATALOGS):
            make(Order(str(data), "", ALL, job))
        check()


@replaces_parts
def test_every_catalog_is_compared_with_its_segment(tmp_path: Path) -> None:
    journal = some_history(3, 200)
    data = write_history(tmp_path, journal, cuts=range(30, len(journal), 30), segment_bytes=1 << 14)
    disk = RealDisk(data / JOURNAL)
    with patch.object(catalog_making, "PIECE_BYTES", 3000):
        found = make_catalogs(data)
    assert list(wrong_catalogs(data, disk)) == [""] * len(found)
    content = bytearray(found[0].read_bytes())
    content[len(content) // 2] ^= 4
    found[0].write_bytes(content)
    found[1].write_bytes(found[1].read_bytes()[:50])
    wrong = list(wrong_catalogs(data, disk))
    assert [bool(each) for each in wrong[:3]] == [True, True, False]
    assert str(found[0]) in wrong[0]
    assert "Delete it" in wrong[0]
    # Sound by itself, and wrong: a pair is missing.
    make(Order(str(data), "", ALL, Job(disk.names()[0], 1)))
    with patch.object(catalog_making, "header_key", lambda value: 7):
        make(Order(str(data), "", ALL, Job(disk.names()[0], 1)))
    assert "differs" in next(wrong_catalogs(data, disk))


def test_events_and_names_are_those_of_a_whole_reading(tmp_path: Path) -> None:
    journal = some_history(3, 300)
    data = write_history(tmp_path, journal, cuts=range(30, len(journal), 30), segment_bytes=1 << 14)
    disk = RealDisk(data / JOURNAL)
    with patch.object(catalog_making, "PIECE_BYTES", 4000):
        found = make_catalogs(data)
    messages = [event.lsn for event in journal if event.row[KIND] == events.ROUTED]
    questions = [Question(message=message) for message in messages[::11]]
    questions += [Question(from_lsn=lsn, to_lsn=lsn + 90) for lsn in range(1, len(journal), 97)]
    questions += [Question(from_lsn=len(journal) - 40), Question(kinds=frozenset({events.MOVED}))]
    for missing in (None, found[1], found[-1]):
        if missing is not None:
            missing.unlink()
        for question in questions:
            read = Inspection(EventFinder(disk), question)
            expected = [line(event, read.names) for event in read.events()]
            for proven in (False, True):
                finder = EventFinder(disk, data)
                topology = Topology(finder, lambda: EVERYTHING)
                asked = Inspection(finder, question, topology=topology)
                told = [line(event, asked.names) for event in asked.events(proven=proven)]
                # The last block of the journal is not proven by anything behind it.
                whole = expected if not proven else expected[: len(told)]
                assert told == whole, question
                assert proven or len(told) == len(expected)
                assert len(expected) - len(told) <= 30
                finder.close()
