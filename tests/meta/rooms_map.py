"""The map of modules in ARCHITECTURE.md, drawn from the first line of each module docstring.

`make map` (python -m tests.meta.rooms_map) draws it anew; a test compares.
"""

import ast
from pathlib import Path

from tests.meta import tree

BEGIN = "<!-- map: begin, drawn by `make map` -->"
END = "<!-- map: end -->"


def first_line(path: Path) -> str:
    """Return the first line of the module docstring, fit for a table."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return docstring.partition("\n")[0].replace("|", "\\|")


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


def main() -> None:
    """Draw the map of this checkout anew."""
    page = tree.ROOT / "ARCHITECTURE.md"
    page.write_text(redrawn(page.read_text("utf-8"), draw(tree.ROOT)), "utf-8")


if __name__ == "__main__":
    main()
