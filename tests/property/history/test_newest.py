"""The last events of a question are the end of all events that fit it, whatever is asked."""

from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.facts.events import CONNECTION, MESSAGE, TIME
from daybook.history import selection
from daybook.history.contents import WithHeader, found_messages
from daybook.history.event_finder import EventFinder
from daybook.history.selection import Question, begin_of_last, begun
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from tests.property.history.test_finding_events import KINDS, some, with_catalogs
from tests.support.histories import ANYCAST, MULTICAST, some_history, write_history

EVENTS = some_history(4, 300)
LSNS = st.integers(1, 1200)
TIMES = sorted({event.row[TIME] for event in EVENTS})[::20]


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One history by its footers, and by its catalogs."""
    made = []
    for name in ("footers", "catalogs"):
        data = tmp_path_factory.mktemp(name) / "data"
        made.append(
            write_history(data, EVENTS, cuts=range(30, len(EVENTS), 30), segment_bytes=1 << 14)
        )
    with_catalogs(made[1])
    return made


def one_of(values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(sorted(values))


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "from_lsn": LSNS, "to_lsn": LSNS, "since": one_of(TIMES), "until": one_of(TIMES),
    "queue": one_of((*ANYCAST, "nothing")), "address": one_of((*ANYCAST, *MULTICAST)),
    "message": one_of({event.row[MESSAGE] for event in EVENTS} - {0}), "kinds": some(KINDS),
    "connection": one_of({event.row[CONNECTION] for event in EVENTS} - {0}),
}  # fmt: skip
QUESTIONS = st.fixed_dictionaries({}, optional=FIELDS).map(lambda fields: Question(**fields))


def found(finder: EventFinder, data: Path, question: Question) -> list[int]:
    inspection = begun(data, finder, question, reads_names=False, note=lambda _: None)
    return [event.lsn for event in inspection.events()]


@given(question=QUESTIONS, count=st.integers(1, 40), span=st.integers(1, 200))
def test_the_last_events_are_the_end_of_all(
    directories: list[Path], question: Question, count: int, span: int
) -> None:
    with patch.object(selection, "LAST_SPAN", span), patch.object(selection, "LAST_GROWTH", 3):
        for data in directories:
            finder = EventFinder(RealDisk(data / JOURNAL), data)
            expected = found(finder, data, question)[-count:]
            begin = begin_of_last(finder, data, question, count)
            assert begin == (expected[0] if expected else question.from_lsn)
            finder.close()


def test_a_search_beside_the_catalogs_says_that_it_is_complete(directories: list[Path]) -> None:
    with closing(EventFinder(RealDisk(directories[1] / JOURNAL), directories[1])) as finder:
        list(found_messages(finder, WithHeader("\udc80", "1")))
    assert finder.notes
    for note in finder.notes:
        assert note.startswith("the search is complete, but was slower: segment "), note
        assert note.endswith("because its catalog does not have the header '\udc80'")
