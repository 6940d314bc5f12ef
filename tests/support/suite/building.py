"""Building the wheel as it is shipped, from a copy of the sources: the checkout stays clean."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from release import manuals
from tests.meta import tree

FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "requirements.lock", "LICENSE")
FOLDERS = ("docs", "etc", "src")
BUILD = "import setuptools.build_meta as b, sys; b.build_sdist(sys.argv[1])"


def copy_sources(source: Path) -> None:
    """Copy what a wheel is made of into a folder, with the manuals that a release adds."""
    for name in (*FILES, *(path.name for path in tree.ROOT.glob("*.md"))):
        shutil.copy(tree.ROOT / name, source)
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info", "*.tmp.md")
    for folder in (*tree.rooms(), *FOLDERS):
        shutil.copytree(tree.ROOT / folder, source / folder, symlinks=True, ignore=ignored)
    manuals.write(source / "share")


def build_archive(source: Path, target: Path) -> Path:
    """Build the archive of the sources from such a copy; return it."""
    command = [sys.executable, "-c", BUILD, str(target)]
    done = subprocess.run(command, cwd=source, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = target.glob("*.tar.gz")
    return built


def build_wheel(source: Path, target: Path) -> Path:
    """Copy what a wheel is made of into a folder, build it there, uncompiled; return the wheel."""
    copy_sources(source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--wheel-dir", target, source], check=False, capture_output=True, text=True,
        env=os.environ | {"DAYBOOK_COMPILE": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = target.glob("*.whl")
    return built
