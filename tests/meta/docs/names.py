"""Names in code style on the pages: what looks like one of ours is looked up in the sources.

The checks cover commands (`make X`, `daybook X --option`, `journal X`), files and folders, modules
and what is in them (`engine.state.apply`), and words that look like an identifier or a key. A word
is known if the code has it, as a name or in a text that is not a docstring.
"""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

import click

from daybook.tools import daybook, journal_cli
from tests.meta import tree
from tests.meta.docs.pages import FENCE

LIKE_A_NAME = re.compile(r"[a-z0-9][_-][a-z0-9]|[a-z][A-Z]|^[A-Z_]{3,}$")
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
WORD = re.compile(r"[A-Za-z_][\w-]*")
NAME = re.compile(r"\[?\[?(--)?[A-Za-z_][\w.-]*\]?\]?(\(\))?")
TOKEN = re.compile(
    r"""
    \#[^\n]*
    | ^[ ]*(?:\"{3}(?:[^\\]|\\.)*?\"{3})
    | (?P<text>[rbfRBF]{0,2}(?:\"{3}(?:[^\\]|\\.)*?\"{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    | (?P<name>[^\W\d]\w*)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
TEST = re.compile(r"(tests/[\w/]+\.py)((?:::\w+)+)")
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
BETWEEN = ("|", "||", "&&", "&", ";", ">", "<", "2>")
ASSIGNED = re.compile(r"[A-Z_]+=.*")
PATH = re.compile(r"[\w.-]+(/[\w.*-]+)+/?(:\w+)?|[\w.-]+/")
TEXTS = ("Makefile", "pyproject.toml", "setup.py", "Dockerfile", ".ci/run")
PROGRAMS = {"daybook": daybook.cli, "journal": journal_cli.cli}


@cache
def spans(page: Path) -> tuple[str, ...]:
    """Return the spans of inline code on a page."""
    return tuple(dict.fromkeys(SPAN.findall(FENCE.sub("", page.read_text("utf-8")))))


def words_of_code(source: str, *, texts: bool = True) -> set[str]:
    """Return the words that code has, in names and in texts, without docstrings and comments.

    A docstring is a text of three quotes that begins a line.
    """
    found: set[str] = set()
    for token in TOKEN.finditer(source):
        if token["name"]:
            found.add(token["name"])
        elif texts and token["text"]:
            found.update(_words_of_text(token["text"]))
    return found


def _words_of_text(text: str) -> list[str]:
    """Return the words of a key or name; of a sentence those that look like keys or names."""
    words = WORD.findall(text)
    if " " not in text:
        return words
    quoted = re.findall(r"'([\w-]+)'", text)
    return quoted + [word for word in words if LIKE_A_NAME.search(word)]


@cache
def known_words(root: Path = tree.ROOT) -> frozenset[str]:
    """Return every word that the code, the build and the shipped files have."""
    found: set[str] = set()
    own = (root / "src" / tree.PACKAGE).glob("*.py")  # beside the rooms
    for path in (*own, *tree.sources(root, *tree.rooms(root), "bench", "docs", "etc", "release")):
        found |= words_of_code(path.read_text("utf-8"))
    for path in tree.sources(root, "tests"):  # their texts may be about what is not there
        found |= words_of_code(path.read_text("utf-8"), texts=False)
    for path in (
        *tree.sources(root, *tree.rooms(root), "bench", "release", "tests"),
        *root.glob("tests/*/*"),
    ):
        found.add(path.stem)
    others = [root / name for name in TEXTS] + [each for each in (root / "etc").rglob("*.*")]
    for path in others:
        if path.is_file() and path.suffix != ".py":
            found |= set(WORD.findall(path.read_text("utf-8")))
    return frozenset(found)


def unknown_command(words: list[str]) -> str:
    """Return the mistake in a command line of ours, "" if there is none."""
    command: click.Command = PROGRAMS[words[0]]
    context = click.Context(command, info_name=words[0])
    for word in words[1:]:
        if word.startswith("-"):
            option = word.partition("=")[0]
            known = {name for each in command.get_params(context) for name in each.opts}
            known |= {name for each in command.get_params(context) for name in each.secondary_opts}
            if option not in known:
                return f"{command.name} has no option {option}"
        elif isinstance(command, click.Group) and "|" not in word:
            if not WORD.fullmatch(word) or word.isupper():
                return ""
            inner = command.get_command(context, word)
            if inner is None:
                return f"{command.name} has no command {word}"
            command, context = inner, click.Context(inner, info_name=word, parent=context)
    return ""


def unknown_target(words: list[str], root: Path = tree.ROOT) -> str:
    """Return the mistake in a call of make, "" if there is none."""
    makefile = (root / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    variables = set(re.findall(r"^([A-Z_]+) [?:]?=", makefile, re.MULTILINE)) | {"DAYBOOK_COMPILE"}
    for word in words[1:]:
        name, assigned, _ = word.partition("=")
        if assigned and name not in variables:
            return f"the Makefile has no variable {name}"
        if not assigned and re.fullmatch(r"[a-z-]+", word) and word not in targets:
            return f"the Makefile has no target {word}"
        if assigned and '"' in word:
            break
    return ""


def blocks(page: Path, languages: tuple[str, ...]) -> list[str]:
    """Return the blocks of code of a page in some languages."""
    found = BLOCK.findall(page.read_text("utf-8"))
    return [body for _, language, body in found if language in languages]


def commands(page: Path) -> Iterator[list[str]]:
    """Return the words of each command in the blocks of a page that are for a shell."""
    lines = [
        line for body in blocks(page, ("sh",)) for line in body.replace("\\\n", " ").splitlines()
    ]
    for body in blocks(page, ("console",)):
        lines += [line.strip()[2:] for line in body.splitlines() if line.strip().startswith("$ ")]
    for line in lines:
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # a text of several lines
            continue
        for _, group in groupby(words, key=BETWEEN.__contains__):
            yield [word for word in group if not ASSIGNED.fullmatch(word)]


def unknown_commands(page: Path) -> Iterator[str]:
    """Find commands in the blocks of a page that the project does not have."""
    for words in commands(page):
        problem = ""
        program = words[0].removeprefix(".venv/bin/") if words else ""
        if program in PROGRAMS and len(words) > 1:
            problem = unknown_command([program, *words[1:]])
        elif program == "make" and len(words) > 1:
            problem = unknown_target(words)
        if problem:
            yield f"{page.name}: {' '.join(words)}: {problem}"


def unknown_module(name: str, root: Path = tree.ROOT) -> str:
    """Return the mistake in a dotted name that begins with a room, "" if there is none."""
    parts = name.removesuffix("()").split(".")
    at = root
    while parts and (at / parts[0]).is_dir():
        at /= parts.pop(0)
    if parts and (at / f"{parts[0]}.py").is_file():
        at = at / f"{parts.pop(0)}.py"
    source = at if at.is_file() else at / "__init__.py"
    if not parts:
        return "" if source.is_file() else f"{name}: there is no such module"
    if parts == ["py"] or (parts and f".{parts[-1]}" in (".py", ".md")):
        return f"{name}: there is no such file"
    words = words_of_code(source.read_text("utf-8")) if source.is_file() else set()
    missing = [part for part in parts if part not in words]
    return f"{name}: {source.relative_to(root)} has no {missing[0]}" if missing else ""


def unknown_path(name: str, page: Path, root: Path = tree.ROOT) -> str:
    """Return the mistake in a path into the repository, "" if there is none."""
    plain = name.partition(":")[0]
    if plain.startswith((".", "dist/", "share/")):  # a folder of the reader's, and what is built
        return ""
    places = (root, page.parent, root / "src", root / "docs")
    if not any((place / plain.split("/")[0]).is_dir() for place in places):
        return ""
    if any(
        True for place in places for end in ("", ".py") for _ in place.glob(plain.rstrip("/") + end)
    ):
        return ""
    return f"{name}: there is no such file"


def unknown_test(path: str, names: str, root: Path = tree.ROOT) -> str:
    """Return the mistake in the name of a test, "" if there is none."""
    if not (root / path).is_file():
        return f"{path}: there is no such file"
    source = (root / path).read_text("utf-8")
    for name in names.removeprefix("::").split("::"):
        if not re.search(rf"\b(?:def|class) {name}\b", source):
            return f"{path} has no {name}"
    return ""


def unknown_name(name: str, known: frozenset[str], root: Path = tree.ROOT) -> str:
    """Return the mistake in a name, "" if there is none or if it does not look like a name."""
    if not NAME.fullmatch(name):
        return ""
    plain = name.strip("[]").removesuffix("()").lstrip("-")
    if plain.startswith("daybook_"):  # a metric; another test compares their table with the code
        return ""
    first, dot, _ = plain.partition(".")
    if dot and first in tree.rooms(root) and (root / first).is_dir():
        problem = unknown_module(plain, root)
        # A section of the configuration may have the name of a room: `journal.segment-bytes`.
        return problem if problem and not set(plain.split(".")) <= known else ""
    if (root / plain).exists():
        return ""
    missing = [
        part for part in WORD.findall(plain) if part not in known and part.lower() not in known
    ]
    return f"{name}: the code has no {missing[0]}" if missing else ""


def unknown(page: Path, known: frozenset[str], foreign: frozenset[str]) -> Iterator[str]:
    """Find what a page has in code style and the project does not have."""
    for span in spans(page):
        words = span.split()
        if span in foreign:
            continue
        if words[0] in PROGRAMS and len(words) > 1:
            problem = unknown_command(words)
        elif words[0] == "make" and len(words) > 1:
            problem = unknown_target(words)
        elif test := TEST.fullmatch(span):
            problem = unknown_test(test[1], test[2])
        elif PATH.fullmatch(span):
            problem = unknown_path(span, page)
        else:
            problem = unknown_name(span, known)
        if problem:
            yield f"{page.name}: `{span}`: {problem}"
