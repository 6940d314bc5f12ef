"""Checks of the source text that linters do not make.

Each yields a sentence per finding: where, what, and what would be right.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.meta import tree

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 1000
FOLDER_MODULES_MAX = 20

# Not to be parsed for: a text of three quotes that says something.
DOCSTRING = re.compile(r'r?"""\s*[^\s"]')

# Spelled in halves, so that this file does not report itself.
MARKERS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")

# Names that would make a decision depend on something other than its command.
CLOCKS = {
    "time.time",
    "time.time_ns",
    "time.monotonic",
    "time.monotonic_ns",
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "date.today",
    "os.urandom",
    "os.getrandom",
}
RANDOM_MODULES = {"random", "secrets", "uuid"}
CLOCK_MODULES = {"time"}
# `hash` of text differs from process to process, `id` from object to object.
IMPURE_BUILTINS = {"open", "print", "input", "hash", "id", "eval", "exec", "__import__"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def statements(node: ast.AST) -> Iterator[ast.stmt | ast.ExceptHandler]:
    """Yield what a tree has but expressions, of which there are many more."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        for each in getattr(node, field, None) or ():
            yield each
            yield from statements(each)


def long_functions(path: Path) -> Iterator[str]:
    """Find functions that are longer than 70 lines."""
    for node in statements(tree.parsed(path)):
        if isinstance(node, Function):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{path}:{node.lineno}: {node.name} has {lines} lines, at most 70 are allowed"


def mixed_errors(path: Path) -> Iterator[str]:
    """Find functions that catch errors of two types under one name.

    mypyc gives a variable the type that it has first, and refuses errors of another one.
    """
    for function in statements(tree.parsed(path)):
        if not isinstance(function, Function):
            continue
        types: dict[str, str] = {}
        for node in statements(function):
            if isinstance(node, ast.ExceptHandler) and node.name and node.type:
                caught = ast.unparse(node.type)
                if types.setdefault(node.name, caught) != caught:
                    yield f"{path}:{node.lineno}: '{node.name}' has two types; use two names"


def long_files(path: Path) -> Iterator[str]:
    """Find files that are longer than 1,000 lines."""
    lines = len(path.read_text("utf-8").splitlines())
    if lines > FILE_LINES_MAX:
        yield f"{path}: has {lines} lines, at most {FILE_LINES_MAX} are allowed"


def full_folders(root: Path, *folders: str) -> Iterator[str]:
    """Find folders that have more than twenty modules: nobody sees at a glance what is in them."""
    modules = (path for path in tree.sources(root, *folders) if path.name != "__init__.py")
    for folder, count in Counter(path.parent for path in modules).items():
        if count > FOLDER_MODULES_MAX:
            yield f"{folder}: has {count} modules, at most {FOLDER_MODULES_MAX} are allowed"


def markers(path: Path) -> Iterator[str]:
    """Find marks of unfinished work."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        for found in MARKERS.findall(line):
            yield f"{path}:{number}: {found}: finish it or write it into an issue"


def imported(node: ast.AST) -> Iterator[str]:
    """Yield the modules, and for `from` imports also the names, that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def clocks_and_randomness(path: Path) -> Iterator[str]:
    """Find clocks and sources of randomness."""
    for node in ast.walk(tree.parsed(path)):
        names = set(imported(node))
        found = {name for name in names if name.partition(".")[0] in RANDOM_MODULES}
        found |= names & CLOCKS
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            found |= {clock for clock in CLOCKS if text == clock or text.endswith(f".{clock}")}
        for name in sorted(found):
            yield f"{path}:{node.lineno}: {name}: time and chance come in with commands"  # type: ignore[attr-defined]


def impurities(path: Path) -> Iterator[str]:
    """Find other uses that a deterministic room must avoid: clocks, files, the terminal, hashes."""
    for node in ast.walk(tree.parsed(path)):
        for name in imported(node):
            if name in CLOCK_MODULES:
                yield f"{path}:{node.lineno}: {name}: time comes in with commands"  # type: ignore[attr-defined]
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in IMPURE_BUILTINS:
            yield f"{path}:{called.lineno}: {called.id}(): not the same in every run"


def missing_module_docstring(path: Path) -> Iterator[str]:
    """Find modules that do not say what they are for."""
    if not DOCSTRING.match(path.read_text("utf-8")):
        yield f"{path}: has no module docstring"


def public_definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield the public functions, classes and methods of a module with their names."""
    for node in body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        decorators = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
        if node.name.startswith("_") or decorators & {"overload", "setter", "override"}:
            continue
        yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from public_definitions(node.body, f"{prefix}{node.name}.")


def missing_docstrings(path: Path) -> Iterator[str]:
    """Find public names that do not say what they are for."""
    for name, node in public_definitions(tree.parsed(path).body):
        assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        if not ast.get_docstring(node):
            yield f"{path}:{node.lineno}: {name} has no docstring"


def imports_of(modules: dict[str, Path], name: str) -> set[str]:
    """Return which of the modules this one imports; importing `a.b` imports `a` too."""
    found: set[str] = set()
    for node in statements(tree.parsed(modules[name])):
        found |= set(imported(node))
    parents = {part for each in found | {name} for part in ancestors(each)}
    return {each for each in found | parents if each in modules and each != name}


def ancestors(name: str) -> list[str]:
    """Return the packages that importing a module imports first."""
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


AWAITED: tuple[str, ...] = ()
"""Codecs of protocols that the registry does not have yet: whole and tested, and used by the next
part. A test sees that a name leaves this list when its protocol is registered."""


def dead_modules(root: Path) -> list[str]:
    """Find modules of the product that nothing reaches from any entry point; tests do not count."""
    modules = {tree.module_name(root, path): path for path in tree.sources(root, *tree.rooms(root))}
    reached: set[str] = set()
    waiting = [name for name in tree.entry_points(root) if name in modules]
    waiting += [name for name in modules if name.startswith(AWAITED)]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(imports_of(modules, name))
    return [f"{modules[name]}: nothing uses it" for name in sorted(set(modules) - reached)]
