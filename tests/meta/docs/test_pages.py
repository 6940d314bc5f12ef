"""The pages lead where they say, and the checks of that can fail."""

from pathlib import Path

import pytest

from tests.meta import tree
from tests.meta.docs import pages

# Decisions are dated and may name what was planned then; other pages speak of the tree as it is.
CURRENT = [page for page in tree.pages() if page.parent.name != "adr"]


def test_the_pages_are_there() -> None:
    names = {page.name for page in CURRENT}
    assert {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"} <= names
    assert {"operations.md", "journal-format.md"} <= names


@pytest.mark.parametrize("page", tree.pages(), ids=lambda page: page.name)
def test_links_resolve(page: Path) -> None:
    assert not list(pages.broken_links(page))


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    assert not list(pages.missing_files(tree.ROOT, page))


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: page.name)
def test_named_tests_exist(page: Path) -> None:
    assert not list(pages.missing_tests(tree.ROOT, page))


PLANTED = [
    ("see [there](gone.md)", "[gone.md] leads nowhere"),
    ("see [there](there.md#other)", "does not have"),
    ("see [here](#other)", "does not have"),
]
FINE = [
    "see [there](there.md)",
    "see [there](there.md#the-way-of-a-message)",
    "see [site](https://example.org/gone)",
    "# Here it is\n\nsee [here](#here-it-is)",
    "```\n[gone](gone.md)\n```",
    "`[gone](gone.md)`",
]


def plant(folder: Path, text: str) -> Path:
    (folder / "there.md").write_text("# The way of a `message`\n")
    page = folder / "page.md"
    page.write_text(text)
    return page


@pytest.mark.parametrize(("text", "expected"), PLANTED)
def test_planted_broken_link_is_found(text: str, expected: str, tmp_path: Path) -> None:
    (found,) = pages.broken_links(plant(tmp_path, text))
    assert expected in found


@pytest.mark.parametrize("text", FINE)
def test_good_link_is_not_reported(text: str, tmp_path: Path) -> None:
    assert not list(pages.broken_links(plant(tmp_path, text)))


def test_planted_missing_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "there.py").write_text("")
    page = plant(tmp_path, "`room/there.py` and `room/gone.py` and `room/gone`")
    (found,) = pages.missing_files(tmp_path, page)
    assert "room/gone.py" in found


def test_planted_missing_test_is_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text("def test_there() -> None: ...\n")
    page = plant(tmp_path, "`test_it::test_there`, `test_it::test_gone`, `test_no::test_there`")
    found = list(pages.missing_tests(tmp_path, page))
    assert ["test_gone" in found[0], "test_no" in found[1], len(found)] == [True, True, 2]
