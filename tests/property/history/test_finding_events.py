"""Whatever sources are at hand, a search finds the same events."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.facts import events, life
from daybook.engine.facts.events import CONNECTION, EVENT_TYPES, KIND, MESSAGE, RELATED, TIME
from daybook.history.contents import WithHeader
from daybook.history.event_finder import EventFinder
from daybook.history.missing_catalogs import Order, make
from daybook.history.moments import last_lsn
from daybook.history.search import Clause, Search
from daybook.journal.data_directory import CATALOGS, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.paging.catalogs.catalog_making import ALL, missing_catalogs, next_piece
from tests.support.histories import HISTORY_ID, some_history, write_history

KINDS = sorted(each.number for each in EVENT_TYPES)
THINGS = [(life.BROKER, 0), *((life.QUEUE, number) for number in range(1, 12))]
THINGS += [(life.ADDRESS, number) for number in range(1, 12)]


JOURNAL_EVENTS = some_history(3, 300)
MESSAGES = sorted({event.row[MESSAGE] for event in JOURNAL_EVENTS} - {0})
RELATED_TO = sorted({event.row[RELATED] for event in JOURNAL_EVENTS} - {0})
TIMES = sorted({event.row[TIME] for event in JOURNAL_EVENTS})[::20]
CONNECTIONS = sorted({event.row[CONNECTION] for event in JOURNAL_EVENTS})


def with_catalogs(data: Path) -> Path:
    """Make all catalogs of a history, with one of the newest segment."""
    disk = RealDisk(data / JOURNAL)
    for job in missing_catalogs(disk, HISTORY_ID, data / CATALOGS):
        make(Order(str(data), "", ALL, job))
    make(Order(str(data), "", ALL, next_piece(disk, HISTORY_ID, data / CATALOGS, last_lsn(disk))))
    return data


def without_some(data: Path) -> None:
    """Remove every second catalog."""
    for path in sorted((data / CATALOGS).glob("*"))[::2]:
        path.unlink()


def with_damage(folder: str, data: Path) -> None:
    """Flip bytes at the end of each catalog, or of each segment, where its footer is."""
    chance = Random(7)
    paths = sorted((data / folder).glob("*"))
    for path in paths[:-1] if folder == JOURNAL else paths:
        content = bytearray(path.read_bytes())
        for place in (40, chance.randrange(20, 60)):
            content[-place] ^= 1
        path.write_bytes(content)


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> list[EventFinder]:
    """One history with different sources: footers, catalogs, some of them, and damaged ones."""
    changes: tuple[Callable[[Path], object], ...] = (
        lambda data: None,
        with_catalogs,
        lambda data: without_some(with_catalogs(data)),
        lambda data: with_damage(CATALOGS, with_catalogs(data)),
        partial(with_damage, JOURNAL),
        lambda data: with_damage(JOURNAL, with_catalogs(data)),
    )
    made = []
    for change in changes:
        folder = tmp_path_factory.mktemp("history") / "data"
        data = write_history(
            folder,
            JOURNAL_EVENTS,
            cuts=range(30, len(JOURNAL_EVENTS), 30),
            segment_bytes=1 << 14,
        )
        change(data)
        made.append(EventFinder(RealDisk(data / JOURNAL), data))
    assert [finder.catalogs is not None for finder in made[:3]] == [False, True, True]
    return made


LSNS = st.integers(1, 1200)


def some(values: Sequence[Any]) -> st.SearchStrategy[Any]:
    return st.just(frozenset(values)) | st.frozensets(st.sampled_from(values), max_size=4)


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "kinds": some(KINDS), "messages": some(MESSAGES), "related": some(RELATED_TO),
    "things": some(THINGS), "queues": some(range(12)), "addresses": some(range(1, 12)),
    "connections": some(CONNECTIONS), "lsns": st.lists(LSNS, max_size=9, unique=True).map(sorted),
    "since": st.sampled_from(TIMES), "until": st.sampled_from(TIMES),
    "contents": st.sampled_from([WithHeader("stock", "pears"), WithHeader("kind", "x")]),
}  # fmt: skip
FIELD = st.sampled_from(sorted(FIELDS)).flatmap(lambda name: st.tuples(st.just(name), FIELDS[name]))
CLAUSE = st.lists(FIELD, min_size=1, max_size=2, unique_by=lambda each: each[0]).map(
    lambda fields: Clause(**dict(fields))
)
SEARCHES = st.lists(CLAUSE, min_size=1, max_size=2)


@given(clauses=SEARCHES, span=st.tuples(LSNS, st.none() | LSNS), aside=st.booleans())
def test_every_source_leads_to_the_events_that_fit(
    histories: list[EventFinder],
    clauses: list[Clause],
    span: tuple[int, int | None],
    aside: bool,
) -> None:
    everything = list(histories[0].find(Search(Clause())))
    from_lsn, to_lsn = span
    assert [each.lsn for each in everything] == list(range(1, len(everything) + 1))
    expected = [
        event
        for event in everything
        if from_lsn <= event.lsn <= (to_lsn or len(everything))
        and any(clause.fits(event) for clause in clauses)
    ]
    for finder in histories:
        search = Search(*clauses, from_lsn=from_lsn, to_lsn=to_lsn)
        assert list(finder.find(search)) == expected
        assert list(finder.find_back(search)) == expected[::-1]
        # What is found beside others is no part of the law, but the others are.
        if aside:
            beside = Search(
                *clauses, from_lsn=from_lsn, to_lsn=to_lsn, aside=[Clause({events.DELIVERED})]
            )
            found = list(finder.find(beside))
            assert [each for each in found if each in expected] == expected


def test_a_search_that_grows_finds_what_it_grew_for(histories: list[EventFinder]) -> None:
    """Each message that is seen is looked for from then on, in the same block already."""
    family: set[int] = set()
    expected = []
    for event in JOURNAL_EVENTS:
        if event.row[KIND] == events.RETURNED or event.row[MESSAGE] in family:
            family.add(event.row[MESSAGE])
            expected.append(event.lsn)
    for finder in histories:
        seen: set[int] = set()
        search = Search(Clause(messages=seen), Clause({events.RETURNED}))
        found = []
        for event in finder.find(search):
            found.append(event.lsn)
            if event.row[MESSAGE] not in seen:
                seen.add(event.row[MESSAGE])
                search.version += 1
        assert found == expected
