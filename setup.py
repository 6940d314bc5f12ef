"""Builds as pyproject.toml says; with DAYBOOK_COMPILE=1 the hot modules are compiled by mypyc.

The compiled modules come from the same sources, which always run uncompiled too. An editable
install stays uncompiled: in a checkout the sources must be what runs.
"""

import ast
import os
import sys
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
PACKAGE = ROOT / "src" / "daybook"
HOT = (
    "errors.py",
    "engine/**/*.py",
    "journal/**/*.py",
    "paging/**/*.py",
    "protocols/stomp/**/*.py",
)
COLD = {
    "__init__.py",  # a table of contents gains nothing
}
COMPILER = "mypy>=1.18"


def loses_meaning(source: str) -> bool:
    """Tell whether mypyc would change what the module means.

    It drops the keyword arguments of classes (`frozen`, `omit_defaults`, `gc`, ...) without a word,
    and takes the defaults of fields that msgspec makes for values of the field's type.
    """
    return any(
        isinstance(node, ast.ClassDef) and (node.keywords or "msgspec.field(" in ast.unparse(node))
        for node in ast.walk(ast.parse(source))
    )


def is_started(source: str) -> bool:
    """Tell whether the module is run by `python -m`, which needs its code, not an extension."""
    return '__name__ == "__main__"' in source


def hot_modules(root: Path = PACKAGE) -> list[str]:
    """Return the modules to compile, relative to the package."""
    return [
        str(path.relative_to(root))
        for pattern in HOT
        for path in sorted(root.glob(pattern))
        if path.name not in COLD
        for source in [path.read_text("utf-8")]
        if not loses_meaning(source) and not is_started(source)
    ]


def compile_arguments() -> dict[str, object]:
    """Return what setup() needs to compile; without the compiler, what is needed to get it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    # mypyc reads the types of what the modules import, so those packages are needed to build.
    arguments: dict[str, object] = {"setup_requires": [COMPILER, *project["dependencies"]]}
    try:
        from mypyc.build import mypycify  # noqa: PLC0415 (only a compiling build needs it)
    except ImportError:
        if "egg_info" not in sys.argv:  # the question what the build requires is answered by that
            raise
        return arguments
    os.chdir(ROOT)
    arguments["ext_modules"] = mypycify(
        ["--strict", *(f"src/daybook/{name}" for name in hot_modules())], opt_level="3"
    )
    return arguments


if __name__ == "__main__":
    setup(**(compile_arguments() if os.environ.get("DAYBOOK_COMPILE") == "1" else {}))
