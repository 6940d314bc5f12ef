"""Plain English: habits that read badly do not come back where they were removed."""

import pytest

from tests.meta import tree
from tests.meta.docs import language

LEFT = {
    "client": 0,
    "engine": 0,
    "history": 0,
    "journal": 0,
    "paging": 0,
    "pipeline": 0,
    "protocols": 0,
    "recovery": 0,
    "server": 0,
    "tools": 0,
    "bench": 0,
    "tests/support": 0,
    "tests": 76,
    "pages": 0,
    "decisions": 35,
}
"""How many are still there; lower a number when you remove some. Nothing may raise one."""


def habits(place: str) -> list[str]:
    """Return the habits of a room or folder, of the pages that describe the project as it is, or of
    the decisions.

    The map in ARCHITECTURE.md repeats the rooms, and CHANGELOG.md has the words of earlier days.
    """
    if place == "decisions":
        return language.count([page for page in tree.pages() if page.parent.name == "adr"])
    if place == "pages":
        leave = ("ARCHITECTURE.md", "CHANGELOG.md")
        current = [page for page in tree.pages() if page.parent.name != "adr"]
        return language.count([page for page in current if page.name not in leave])
    # The check's own examples are not habits.
    own = (language.__file__, __file__)
    return language.count([path for path in tree.sources(tree.ROOT, place) if str(path) not in own])


@pytest.mark.parametrize("place", LEFT)
def test_there_are_no_more_than_there_were(place: str) -> None:
    there = habits(place)
    assert len(there) <= LEFT[place], "\n".join(there)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Of an id its key is kept.", "fronted Of"),
        ("It is so. Of the rest nothing is.", "fronted Of"),
        ("who is killed is started again", "headless who"),
        ("ask whoever knows", "headless who"),
        ("the sender is told", "is told"),
        ("it goes on", "go on"),
        ("it is made anew", "anew"),
        ("mended by hand", "mend"),
        ("Have limits looked at first", "have it done"),
        ("It ends. What is in flight returns.", "headless what"),
        ("a report: what was found", "headless what"),
        ("It waits. Who writes gets an answer.", "who as a subject"),
        ("it raises what the disk raises", "raises what"),
        ("it says what is wrong", "what is wrong"),
        ("a rule that changes nothing", "changes nothing"),
        ("a file that is no segment", "is no"),
        ("it waits for ever", "for ever"),
        ("it is sent, whether or not it was read", "whether or not"),
    ],
)
def test_a_habit_is_found(text: str, name: str) -> None:
    assert [each for each, _ in language.found(text)] == [name]


def test_plain_sentences_are_fine() -> None:
    text = (
        "The broker reports it. A list of the queues. Messages go on the queue. It is retold. "
        "What is an entry? There is no file, and it is no longer there. It must never know: what a "
        "column means."
    )
    assert not list(language.found(text))
