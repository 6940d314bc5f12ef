"""The documentation builds as a site without a dead link, and the checks of that can fail."""

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from release.site import building, links, navigation, staging
from tests.meta import tree

SECTIONS = navigation.read(tree.ROOT)
LISTED = [entry.path for section in SECTIONS for entry in section.entries]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of these sources."""
    if find_spec("zensical") is None and not os.environ.get("CI"):
        pytest.skip("zensical is not installed (`make docs`): the site is not built")
    return building.build(tmp_path_factory.mktemp("site"))


def test_no_link_leads_nowhere(site: Path) -> None:
    assert not list(links.broken(site))


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    assert not list(links.foreign(site))


def test_lists_tables_and_blocks_are_not_shown_as_text(site: Path) -> None:
    """The generator asks for a blank line before a list, and for four columns within one."""
    shown = re.compile(r"<p>(?:(?!</?p>)[\s\S])*?\n(?:- |\d+\. |\||```).*")
    found = [
        f"{path.relative_to(site)}: {match[0][-80:]}"
        for path in site.rglob("*.html")
        for match in shown.finditer(path.read_text("utf-8"))
    ]
    assert not found


def test_the_first_page_and_the_search_have_the_documentation(site: Path) -> None:
    first = (site / "index.html").read_text("utf-8")
    assert all(f"<strong>{section.title}</strong>" in first for section in SECTIONS)
    assert "fdatasync" in (site / "search.js").read_text("utf-8")


def test_every_page_is_listed_once() -> None:
    pages = {path.relative_to(tree.ROOT).as_posix() for path in tree.pages()}
    pages = {path for path in pages if not path.startswith("docs/adr/")} - {"README.md"}
    assert sorted(LISTED) == sorted({*pages, "docs/adr/"})


def test_the_sections_are_those_of_a_documentation() -> None:
    titles = [section.title for section in SECTIONS]
    assert titles == ["Tutorial", "How-to guides", "Reference", "Explanation"]
    assert all(section.sentence and section.entries for section in SECTIONS)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A source tree with an example."""
    folder = tmp_path / "root"
    (folder / "docs" / "examples").mkdir(parents=True)
    (folder / "docs" / "examples" / "a.py").write_text("print()\n")
    return folder


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[x](b.md#y)", "[x](b.md#y)"),
        ("[x](../README.md#extras)", "[x](../index.md#extras)"),
        ("[`x`](examples/a.py)", "[`x`](examples/a.py.md)"),
        ("[x](adr/)", "[x](adr/index.md)"),
        ("[`x`](../tests/simulation)", "`x`"),
        ("[x](https://example.org/a.py)", "[x](https://example.org/a.py)"),
        ("![x](images/a.png)", "![x](images/a.png)"),
        ("`[x](../tests)`", "`[x](../tests)`"),
        ("```\n[x](../tests)\n```\n", "```\n[x](../tests)\n```\n"),
    ],
)
def test_a_link_leads_to_what_the_site_has(text: str, expected: str, root: Path) -> None:
    assert staging.Stage(root, root).page("docs/page.md", text) == expected


def test_the_same_in_several_languages_becomes_tabs(root: Path) -> None:
    page = (
        "<!-- tabs -->\n**Python**\n\n[examples/a.py](examples/a.py)\n\n"
        "**Go**\n\n```sh\ngo\n```\n\n<!-- end of tabs -->\n"
    )
    assert staging.Stage(root, root).page("docs/page.md", page) == (
        '=== "Python"\n\n    [examples/a.py](examples/a.py.md)\n    \n    ````python\n    print()\n'
        '    ````\n\n=== "Go"\n\n    ```sh\n    go\n    ```\n\n'
    )


def test_a_page_with_a_diagram_loads_what_draws_it(root: Path) -> None:
    text = staging.Stage(root, root).page("docs/page.md", "```mermaid\nflowchart LR\n```\n")
    assert f'<script src="../assets/vendor/{staging.DIAGRAMS}">' in text


def test_planted_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="here">A</h1><a href="#here"></a><a href="#gone"></a><a href="b.html"></a>'
        '<a href="https://example.org"></a><script src="https://example.org/x.js"></script>'
        '<link rel="canonical" href="https://example.org"><img src="a.png">'
    )
    assert list(links.broken(tmp_path)) == [
        "a.html: #gone names a heading that is not there",
        "a.html: b.html leads nowhere",
    ]
    assert list(links.foreign(tmp_path)) == ["a.html: loads https://example.org/x.js"]
