"""The source tree as the meta tests see it: rooms, modules, pages, and what pyproject.toml says."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "daybook"


def project(root: Path = ROOT) -> dict[str, Any]:
    """Return pyproject.toml."""
    return _parsed((root / "pyproject.toml").read_text("utf-8"))


@cache
def _parsed(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


def packages(root: Path = ROOT) -> list[str]:
    """Return the import packages, as pyproject.toml lists them."""
    listed: list[str] = project(root)["tool"]["setuptools"]["packages"]
    return listed


def rooms(root: Path = ROOT) -> list[str]:
    """Return the rooms: the folders at the top whose links make up the package."""
    return sorted({name.split(".")[1] for name in packages(root) if "." in name})


def sources(root: Path, *folders: str) -> list[Path]:
    """Return the Python files below these folders."""
    return [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]


def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a source file; nobody may change it, for all checks share it."""
    return _module(path.read_text("utf-8"))


@cache
def _module(source: str) -> ast.Module:
    return ast.parse(source)


def pages(root: Path = ROOT) -> list[Path]:
    """Return the Markdown pages of the project; working papers (`*.tmp.md`) are none."""
    found = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    return sorted(path for path in found if not path.name.endswith(".tmp.md"))


def module_name(root: Path, path: Path) -> str:
    """Return the name under which a source file is imported."""
    parts = list(path.relative_to(root).with_suffix("").parts)
    if parts[0] in rooms(root):
        parts.insert(0, PACKAGE)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def entry_points(root: Path = ROOT) -> set[str]:
    """Return the modules that are started: console scripts and `python -m`, also by ourselves."""
    scripts = project(root)["project"].get("scripts", {})
    started = {target.partition(":")[0] for target in scripts.values()}
    for name in ("Makefile", "etc/daybook.service"):
        path = root / name
        if path.exists():
            started |= set(re.findall(r"python3? (?:-P )?-m ([\w.]+)", path.read_text("utf-8")))
    for path in sources(root, *rooms(root)):
        text = path.read_text("utf-8")
        started |= set(
            re.findall(r'"(daybook\.[\w.]+):\w+"', text)
        )  # commands imported when called
        started |= set(re.findall(r'(?:"-m",\s+|child_command\()"([\w.]+)"', text))
    return started
