"""Names on the pages exist, and the check of that can fail."""

import re
from pathlib import Path

import pytest

from tests.meta import tree
from tests.meta.docs import names, pages
from tests.meta.drawn import rooms_map

FOREIGN = frozenset({
    # Other brokers, protocols and file formats.
    "MDB_NOSYNC", "anycastPrefix", "broker.xml", "durable-subscriber-name",
    "durable-subscription-name", "first-acquirer", "multicastPrefix",
    "subscription-name",
    "delivery_limit", "maxlen", "routing-keys", "x-death", "x-first-death-queue",
    "x-first-death-reason",
    # Object stores, Delta and Spark.
    "AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_SECRET_ACCESS_KEY",
    "AbortMultipartUpload", "DeleteObject", "GetObject", "ListBucket", "PutObject",
    "Trigger.AvailableNow", "VACUUM", "df.write", "df.writeStream",
    # Kubernetes, and an event kind that a decision imagines.
    "Discarded", "discarded", "startupProbe",
    # Fields of AMQP, whose names in the code have underscores, and annotations whose names are put
    # together from two words.
    "creation-time", "group-id", "group-sequence", "undeliverable-here",
    "x-opt-ACTUAL-EXPIRY", "x-opt-DAYBOOK-DEATH-REASON", "x-opt-ORIG-ADDRESS",
    "x-opt-ORIG-MESSAGE-ID", "x-opt-ORIG-QUEUE", "x-opt-VALIDATED-USER",
    # A fault whose name is put together from two words.
    # The operating system.
    "dmesg", "nobarrier", "tmpfs",
    # Types of numbers on disk.
    "i64", "u16", "u32", "u64",
    # Patterns that names and values follow, and examples.
    "LSN-END-NAME.lease", "LSN-PID-N.pin", "P1DT2H0.5S", "orders.eu.vat", "max...PerTransaction",
})  # fmt: skip
"""Names on the pages that are not ours."""

# A decision that was replaced may name what there was.
PAGES = [page for page in tree.pages() if "Status: replaced" not in page.read_text("utf-8")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page: Path) -> None:
    assert not list(names.unknown(page, names.known_words(), FOREIGN))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_blocks_exist(page: Path) -> None:
    """Blocks of `sh` are not run: they install, or name machines and files of the reader."""
    assert not list(names.unknown_commands(page))


def test_blocks_of_a_console_are_run_by_a_test() -> None:
    having = {page.name for page in PAGES if names.blocks(page, ("console",))}
    assert having == {"filters.md", "forensics.md", "tutorial.md"}, "run its commands in a test"


def test_a_command_in_a_block_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\nA=1 daybook nonsense\nmake nonsense && daybook status | grep x\n```\n"
        "1. one\n\n    ```console\n    $ journal verify data --nonsense\n    intact\n    ```\n"
        "```console\n$ daybook queue nonsense > file\ndaybook nonsense\n```\n"
    )
    found = [each.rpartition(": ")[2] for each in names.unknown_commands(page)]
    assert found == [
        "cli has no command nonsense",
        "the Makefile has no target nonsense",
        "verify has no option --nonsense",
        "queue has no command nonsense",
    ]


def test_no_foreign_name_is_listed_in_vain() -> None:
    everything = "".join(page.read_text("utf-8") for page in PAGES)
    assert not [name for name in FOREIGN if f"`{name}`" not in everything]


PLANTED = [
    ("make nonsense", "no target nonsense"),
    ("make test NONSENSE=1", "no variable NONSENSE"),
    ("daybook nonsense", "no command nonsense"),
    ("daybook queue purge NAME --nonsense", "no option --nonsense"),
    ("journal verify --nonsense=1", "no option --nonsense"),
    ("engine/nonsense.py", "no such file"),
    ("engine/nonsense/", "no such file"),
    ("tests/meta/nonsense.py::test_it", "no such file"),
    ("tests/meta/tree.py::test_nonsense", "tests/meta/tree.py has no test_nonsense"),
    ("docs/nonsense-*.md", "no such file"),
    ("engine.nonsense", "engine/__init__.py has no nonsense"),
    ("engine.state.apply.nonsense()", "engine/state/apply.py has no nonsense"),
    ("NonsenseHappened", "the code has no NonsenseHappened"),
    ("max-nonsense-bytes", "the code has no max-nonsense-bytes"),
    ("nonsense_of()", "the code has no nonsense_of"),
    ("[[nonsense]]", "the code has no nonsense"),
    ("--nonsense", "the code has no nonsense"),
    ("Makefile.nonsense", "the code has no nonsense"),
]
FINE = [
    "make", "make bench COMPILE=1", "make test PYTEST_ARGS='-m \"not slow\"'",
    "daybook serve --set KEY=VALUE",
    "daybook queue list|create", "journal sql --data data \"SELECT 1\"", "engine/state/apply.py",
    "engine/state/apply.py:apply", "engine/", "docs/adr/0001-*.md", "engine.state.apply",
    "engine.apply.apply()",
    "journal.segment-bytes", "segment-bytes", "Routed", "[[address-setting]]", "--listen", "./data",
    "a > b", "40 s", "/queue/nonsense",
]  # fmt: skip


def found_on(folder: Path, text: str) -> list[str]:
    page = folder / "page.md"
    page.write_text(text)
    return list(names.unknown(page, names.known_words(), frozenset({"foreign_nonsense"})))


@pytest.mark.parametrize(("span", "expected"), PLANTED)
def test_a_planted_name_is_found(span: str, expected: str, tmp_path: Path) -> None:
    (found,) = found_on(tmp_path, f"Here is `{span}`.\n")
    assert expected in found


@pytest.mark.parametrize("span", FINE)
def test_a_name_that_exists_is_fine(span: str, tmp_path: Path) -> None:
    assert not found_on(tmp_path, f"Here is `{span}`.\n")


def test_foreign_names_and_blocks_of_code_are_left_alone(tmp_path: Path) -> None:
    assert not found_on(tmp_path, "`foreign_nonsense`\n\n```\n`real_nonsense`\n```\n")


def test_words_of_docstrings_and_comments_prove_nothing() -> None:
    source = (
        '"""Of_a_docstring."""\n\n\ndef f():  # of_a_comment\n    """Of_f."""\n    return "key"\n'
    )
    assert names.words_of_code(source) == {"def", "f", "return", "key"}


ENDS = re.compile(r"[.:;?!)\"`*|>]$")
"""How a paragraph ends: with a mark, or with a name."""


def unfinished(text: str) -> list[str]:
    """Find paragraphs of a page that end in the middle of a sentence."""
    text = re.sub(r"<!--.*?-->", "", pages.FENCE.sub("", text), flags=re.DOTALL)
    paragraphs = [each.strip() for each in re.split(r"\n\s*\n", text)]
    prose = [each for each in paragraphs if each and each[0].isalpha()]
    return [each.splitlines()[-1] for each in prose if not ENDS.search(each)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paragraphs_end_with_their_sentence(page: Path) -> None:
    assert not unfinished(page.read_text("utf-8"))


def test_a_paragraph_in_mid_air_is_found() -> None:
    assert unfinished("It is\ndone.\n\nIt was done and then\n\n# Heading\n") == [
        "It was done and then"
    ]


def test_docstrings_of_modules_begin_with_a_sentence() -> None:
    sources = tree.sources(tree.ROOT, *tree.rooms())
    assert not [path for path in sources if not ENDS.search(rooms_map.first_line(path))]


def test_what_the_classifiers_say_is_true() -> None:
    project = tree.project()
    classifiers = set(project["project"]["classifiers"])
    assert "Typing :: Typed" in classifiers
    assert (tree.ROOT / "src" / tree.PACKAGE / "py.typed").is_file()
    versions = {each.rpartition(" ")[2] for each in classifiers if "Python :: 3." in each}
    # The version that the tests run on, and the one that the sources are checked for.
    assert versions == {project["tool"]["mypy"]["python_version"]}
    assert project["project"]["requires-python"] == f">={min(versions)}"
