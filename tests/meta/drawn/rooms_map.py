"""The map of modules in ARCHITECTURE.md and in each package, from the first lines of docstrings.

`make map` (python -m tests.meta.drawn.rooms_map) redraws it; a test compares.
"""

import ast
import textwrap
from pathlib import Path

from tests.meta import tree

BEGIN = "<!-- map: begin, drawn by `make map` -->"
END = "<!-- map: end -->"
HEADING = "Modules:"
"""Begins the last part of a package's docstring, which lists its modules."""


def first_line(path: Path) -> str:
    """Return the first paragraph of the module docstring as one line, fit for a table."""
    docstring = ast.get_docstring(tree.parsed(path)) or ""
    return " ".join(docstring.partition("\n\n")[0].split()).replace("|", "\\|")


def draw(root: Path) -> str:
    """Return the map: a table for each room, the package first, then its modules."""
    lines: list[str] = []
    for room in tree.rooms(root):
        init = root / room / "__init__.py"
        lines += [
            "",
            f"### {room}/",
            "",
            first_line(init),
            "",
            "| module | what it is |",
            "|---|---|",
        ]
        for path in tree.sources(root, room):
            if path != init:
                name = str(path.relative_to(root)).removesuffix("__init__.py")
                lines.append(f"| `{name}` | {first_line(path)} |")
    return "\n".join([*lines[1:], ""])


def redrawn(text: str, drawing: str) -> str:
    """Return the page with the map between its two marks replaced."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page must hold the lines {BEGIN!r} and {END!r}, in this order")
    return f"{before}{BEGIN}\n\n{drawing}\n{END}{after}"


def contents(init: Path) -> str:
    """Return the list of a package's modules, a sentence for each, as its docstring has it."""
    folder = init.parent
    named = [path for path in folder.glob("*.py") if path != init]
    named += [path for path in folder.glob("*/__init__.py") if not path.parent.is_symlink()]
    lines = [HEADING, ""]
    for path in sorted(named, key=lambda path: path.relative_to(folder).parts[0]):
        name = path.relative_to(folder).parts[0].removesuffix(".py")
        sentence = first_line(path).replace("\\|", "|")
        lines += textwrap.wrap(
            f"- `{name}`: {sentence}", 100, subsequent_indent="  ", break_on_hyphens=False
        )
    return "\n".join(lines)


def with_contents(source: str, listed: str) -> str:
    """Return the source of a package with the list at the end of its docstring replaced."""
    docstring = ast.parse(source).body[0]
    assert isinstance(docstring, ast.Expr), "a package begins with a docstring"
    lines = source.splitlines()
    said = "\n".join(lines[: docstring.end_lineno]).removesuffix('"""')
    rest = "\n".join(lines[docstring.end_lineno :])
    said = said.partition(f"\n{HEADING}\n")[0].rstrip()
    return f'{said}\n\n{listed}\n"""\n{rest}'.rstrip() + "\n"


def packages_with_modules(root: Path) -> list[Path]:
    """Return the `__init__.py` of each package that has modules to list."""
    inits = [path for path in tree.sources(root, *tree.rooms(root)) if path.name == "__init__.py"]
    return [path for path in inits if len(contents(path).splitlines()) > 2]


def main() -> None:
    """Redraw the map of this checkout."""
    for init in packages_with_modules(tree.ROOT):
        init.write_text(with_contents(init.read_text("utf-8"), contents(init)), "utf-8")
    page = tree.ROOT / "ARCHITECTURE.md"
    page.write_text(redrawn(page.read_text("utf-8"), draw(tree.ROOT)), "utf-8")


if __name__ == "__main__":
    main()
