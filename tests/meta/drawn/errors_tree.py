"""The tree of errors in the docstring of `daybook.errors`, drawn from the classes.

`make map` (python -m tests.meta.drawn.errors_tree) redraws it; a test compares.
"""

import importlib
from collections.abc import Iterator

from daybook import errors
from tests.meta import tree

MODULE = tree.ROOT / "src" / "daybook" / "errors.py"


def draw() -> str:
    """Return the tree as lines of the docstring."""
    for path in tree.sources(tree.ROOT, *tree.rooms()):
        if "Error" in path.read_text("utf-8") and path.name != "__main__.py":
            importlib.import_module(tree.module_name(tree.ROOT, path))
    return "\n".join(_lines(errors.DaybookError, 1))


def _lines(base: type[Exception], depth: int) -> Iterator[str]:
    yield f"{'    ' * depth}{base.__name__:<{36 - 4 * depth}}{_place(base)}".rstrip()
    ours = [each for each in base.__subclasses__() if each.__module__.startswith(tree.PACKAGE)]
    for each in sorted(ours, key=lambda each: (each.__module__, each.__name__)):
        yield from _lines(each, depth + 1)


def _place(error: type[Exception]) -> str:
    return error.__module__.removeprefix(f"{tree.PACKAGE}.") if error.__module__ else ""


def with_tree(source: str) -> str:
    """Return the source of the module with the tree as it is."""
    before, _, rest = source.partition("\n    DaybookError ")
    after = rest.partition("\n\n")[2]
    return f"{before}\n{draw()}\n\n{after}"


def main() -> None:
    """Redraw the tree."""
    MODULE.write_text(with_tree(MODULE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
