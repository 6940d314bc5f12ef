"""Builds as pyproject.toml says; with DAYBOOK_COMPILE=1 the hot modules are compiled by mypyc.

The compiled modules come from the same sources, which always run uncompiled too. An editable
install stays uncompiled: in a checkout the sources must be what runs.
"""

import os
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
PATTERNS = ("engine/*.py", "journal/*.py", "protocols/stomp/*.py")
# Packages' tables of contents gain nothing, and classes made by msgspec's metaclass cannot be
# native: such modules stay as they are.
EXCLUDED_NAMES = ("__init__.py",)
EXCLUDED_MARK = "msgspec.Struct"


def hot_modules() -> list[str]:
    found = (path for pattern in PATTERNS for path in sorted(ROOT.glob(pattern)))
    return [
        str(path.relative_to(ROOT))
        for path in found
        if path.name not in EXCLUDED_NAMES and EXCLUDED_MARK not in path.read_text("utf-8")
    ]


def compile_arguments() -> dict[str, object]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    # mypyc reads the types of what the modules import, so those packages are needed to build.
    arguments: dict[str, object] = {"setup_requires": ["mypy>=1.18", *project["dependencies"]]}
    try:
        from mypyc.build import mypycify  # noqa: PLC0415 (only a compiling build needs it)
    except ImportError:
        # The frontend is still asking what the build requires; it gets the answer above.
        return arguments
    os.chdir(ROOT)
    arguments["ext_modules"] = mypycify(["--strict", *hot_modules()], opt_level="3")
    return arguments


setup(**(compile_arguments() if os.environ.get("DAYBOOK_COMPILE") == "1" else {}))
