"""A question about a queue or an address has one answer, however its ids and all names are found:
by what it names, by reading everything, with snapshots, catalogs, or none of them."""

from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine import commands as c
from daybook.engine.facts import definitions
from daybook.engine.facts.settlements import REJECTED
from daybook.history.descriptions import line
from daybook.history.event_finder import EventFinder
from daybook.history.selection import Question, begun
from daybook.journal.data_directory import INDEX, JOURNAL, SNAPSHOTS
from daybook.journal.disk import RealDisk
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.snapshots import snapshots
from daybook.paging.snapshots.snapshots import Snapshots, known_snapshots
from tests.property.history.test_finding_events import with_catalogs, without_some
from tests.support.forging.direct import TABLE, Direct
from tests.support.histories import HISTORY_ID, write_history
from tests.support.topology import create_queue
from tests.support.world import Event

QUEUES = ("a", "ab", "größe", "news.press", "b")
ADDRESSES = ("a", "news", "b")


def churn(seed: int, steps: int) -> list[Event]:
    """Queues and addresses that begin and end under the same names again and again, beside a direct
    address, with messages and restarts."""
    chance = Random(seed)
    direct = Direct("one")
    world = direct.world
    for _ in range(steps):
        name, address = chance.choice(QUEUES), chance.choice(ADDRESSES)
        deed = chance.randrange(80)
        if deed < 3:
            world.handle(create_queue(name, address, definitions.MULTICAST))
        elif deed == 3:
            world.handle(c.DeleteQueue(name, force=True))
        elif deed == 4 and address != "news":
            world.handle(c.DeleteAddress(address, force=True))
        elif deed < 14:
            message = direct.send("one")
            world.handle(c.Settle(direct.receivers[0], message, outcome=REJECTED, error="bad"))
            if deed == 13:
                world.detach(direct.receivers[0])
                direct.receivers = [direct.receiver("one")]
        elif deed == 14:
            world.restart()
            begin_again(direct)
        else:
            world.handle(c.Send(direct.sending, address, b"", b"x"))
        world.turn()
        world.deliveries.clear()
    return list(world.journal)


def begin_again(direct: Direct) -> None:
    world = direct.world
    world.ok(c.ChangeDistributions(TABLE))
    direct.sending, direct.receiving = world.connect(), world.connect()
    direct.senders = {"one": direct.sender("one")}
    direct.receivers = [direct.receiver("one")]


JOURNAL_EVENTS = churn(5, 600)
LAST = len(JOURNAL_EVENTS)
PLACES = [LAST // 5, LAST // 2, 4 * LAST // 5]


def with_snapshots(data: Path) -> None:
    disk = RealDisk(data / JOURNAL)
    taken = Snapshots(data / SNAPSHOTS, HISTORY_ID)
    with closing(Index(data / INDEX, HISTORY_ID)) as index:
        for batch in batches(disk, 0, LAST, set(PLACES)):
            index.advance(batch)
            taken.follow(index, disk, 1, 1)
    assert len(list(known_snapshots(data / SNAPSHOTS, HISTORY_ID))) >= len(PLACES)


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One history: a single segment, several without and with catalogs, and with snapshots."""
    made = []
    cuts = sorted({*range(20, LAST, 20), *PLACES})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "SHARE", 0)
        for name in ("one", "several", "catalogs", "some", "snapshots"):
            data = tmp_path_factory.mktemp(name) / "data"
            size = 1 << 22 if name == "one" else 1 << 14
            made.append(write_history(data, JOURNAL_EVENTS, cuts=cuts, segment_bytes=size))
            if name not in ("one", "several"):
                with_catalogs(data)
            if name == "some":
                without_some(data)
            if name == "snapshots":
                with_snapshots(data)
    return made


def told(finder: EventFinder, data: Path, question: Question, *, reads: bool) -> list[str]:
    inspection = begun(data, finder, question, reads_names=reads, note=pytest.fail)
    return [line(event, inspection.names) for event in inspection.events()]


NAMED = [{"queue": each} for each in (*QUEUES, "never")]
NAMED += [{"address": each} for each in (*ADDRESSES, "one", "never")]
NAMED += [{"queue": "a", "address": "news"}]
LSNS = st.integers(1, LAST)
SPANS = st.fixed_dictionaries({"from_lsn": LSNS}, optional={"to_lsn": LSNS})


@given(named=st.sampled_from(NAMED), spans=st.lists(SPANS, min_size=2, max_size=4))
def test_an_answer_does_not_depend_on_how_names_are_found(
    directories: list[Path], named: dict[str, str], spans: list[dict[str, int]]
) -> None:
    asked = [Question(**named, **span) for span in spans]
    expected: list[list[str]] = []
    for data in directories:
        with closing(EventFinder(RealDisk(data / JOURNAL), data)) as finder:
            whole = [told(finder, data, each, reads=True) for each in asked]
            expected = expected or whole
            # Each question uses the ids that those before it found.
            assert [told(finder, data, each, reads=False) for each in asked] == expected
            assert whole == expected


def test_what_was_learned_of_one_span_hides_nothing_of_another(directories: list[Path]) -> None:
    parts = [{"from_lsn": each, "to_lsn": each + 90} for each in PLACES[::-1]]
    spans = [{"to_lsn": 60}, *parts, {}, *parts]
    for data in directories[:1] + directories[2:]:
        for named in NAMED:
            asked = [Question(**named, **span) for span in spans]
            with closing(EventFinder(RealDisk(data / JOURNAL), data)) as finder:
                found = [told(finder, data, each, reads=False) for each in asked]
                assert found == [told(finder, data, each, reads=True) for each in asked]


def test_what_never_was_is_said(directories: list[Path]) -> None:
    for data in directories:
        with closing(EventFinder(RealDisk(data / JOURNAL), data)) as finder:
            for kind, fields in (("queue", {"queue": "never"}), ("address", {"address": "no"})):
                question = Question(from_lsn=LAST // 2, **fields)
                inspection = begun(data, finder, question, reads_names=False, note=pytest.fail)
                assert not list(inspection.events())
                assert inspection.unknown == kind
            known = begun(data, finder, Question(queue="a"), reads_names=False, note=pytest.fail)
            assert list(known.events())
            assert not known.unknown


def test_the_names_come_and_go_again() -> None:
    """The history has what the other tests are about."""
    made: dict[str, set[int]] = {}
    for event in JOURNAL_EVENTS:
        if event.name == "QueueCreated":
            made.setdefault(event.decoded.name, set()).add(event.lsn)
    assert set(QUEUES) <= set(made)
    assert sum(len(made[each]) for each in QUEUES) > 2 * len(QUEUES)
    links = [each for each in JOURNAL_EVENTS if each.name == "LinkAttached"]
    assert len(links) > 4
