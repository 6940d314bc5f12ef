"""Building the wheel as it is shipped, from a copy of the sources: the checkout stays clean."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.meta import tree

FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")


def build_wheel(source: Path, target: Path) -> Path:
    """Copy what a wheel is made of into a folder, build it there, uncompiled; return the wheel."""
    for name in FILES:
        shutil.copy(tree.ROOT / name, source)
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
    for folder in (*tree.rooms(), "etc", "src"):
        shutil.copytree(tree.ROOT / folder, source / folder, symlinks=True, ignore=ignored)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--wheel-dir", target, source], check=False, capture_output=True, text=True,
        env=os.environ | {"DAYBOOK_COMPILE": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = target.glob("*.whl")
    return built
