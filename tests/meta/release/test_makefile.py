"""`git pull; make serve` runs the new code: what `make` does in a tree with a Python that only says
what it is asked for.
"""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.meta import tree

FAKE = '#!/bin/sh\necho "$(basename "$0") $*"\n'
EDITABLE = "--editable ."
BUILD = "pip wheel"
OLD = 1_000_000_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with a module in every room, whose environments are ready and older than now."""
    folder = tmp_path_factory.mktemp("made")
    for name in (
        "Makefile",
        "pyproject.toml",
        "requirements.lock",
        "setup.py",
        "README.md",
        "LICENSE",
    ):
        shutil.copy(tree.ROOT / name, folder)
    for room in (*tree.rooms(), "etc", "src"):
        (folder / room).mkdir()
        (folder / room / "module.py").touch()
    for name in (".venv", ".venv-compiled"):
        bin_folder = folder / name / "bin"
        bin_folder.mkdir(parents=True)
        for program in ("python", "daybook"):
            (bin_folder / program).write_text(FAKE)
            (bin_folder / program).chmod(0o755)
        (folder / name / ".made").touch()
    for path in folder.rglob("*"):
        os.utime(path, (OLD, OLD))
    make(folder, "serve")
    make(folder, "serve", "COMPILE=1")
    return folder


@pytest.fixture
def checkout(made: Path, tmp_path: Path) -> Path:
    """A copy of that tree, as old as it is."""
    return shutil.copytree(made, tmp_path / "checkout")


def make(checkout: Path, *words: str) -> str:
    """Return the commands that `make` ran."""
    done = subprocess.run(
        ["make", *words], cwd=checkout, capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def pulled(path: Path, text: str = "# changed\n") -> None:
    """Change a file as `git pull` does."""
    path.write_text(path.read_text() + text if path.exists() else text)
    os.utime(path, (time.time() + 5,) * 2)


def test_nothing_is_installed_twice(checkout: Path) -> None:
    assert "pip" not in make(checkout, "serve")
    assert "pip" not in make(checkout, "serve", "COMPILE=1")


@pytest.mark.parametrize("name", ["pyproject.toml", "requirements.lock"])
def test_a_new_dependency_is_installed(checkout: Path, name: str) -> None:
    pulled(checkout / name)
    done = make(checkout, "serve")
    assert done.index("release.installation broker") < done.index(EDITABLE)
    done = make(checkout, "serve", "COMPILE=1")
    assert done.index("release.installation broker") < done.index("--force-reinstall")
    assert (BUILD in done) == (name == "pyproject.toml")


@pytest.mark.parametrize("name", ["engine/module.py", "server/a/b/deep.py", "src/module.py"])
def test_the_compiled_broker_is_built_again_for_a_changed_or_new_source(
    checkout: Path, name: str
) -> None:
    (checkout / name).parent.mkdir(parents=True, exist_ok=True)
    pulled(checkout / name)
    done = make(checkout, "serve", "COMPILE=1")
    assert done.index(BUILD) < done.index("--force-reinstall") < done.index("daybook serve")
    assert "pip" not in make(checkout, "serve"), "the checkout itself is what runs"


def test_the_compiled_broker_is_built_again_when_a_source_is_gone(checkout: Path) -> None:
    (checkout / "engine" / "module.py").unlink()
    assert BUILD in make(checkout, "serve", "COMPILE=1")
    assert BUILD not in make(checkout, "serve", "COMPILE=1")


def test_a_copy_that_was_installed_over_the_checkout_is_replaced(checkout: Path) -> None:
    """As by `pip install '.[sql]'`: it would always run, whatever is pulled."""
    copy = checkout / ".venv" / "lib" / "python3.11" / "site-packages" / "daybook"
    copy.mkdir(parents=True)
    (copy / "__init__.py").touch()
    assert EDITABLE in make(checkout, "serve")


def test_sql_keeps_the_checkout(checkout: Path) -> None:
    done = make(checkout, "sql")
    assert done.index("release.installation sql") < done.index(EDITABLE)
    assert "pip" not in make(checkout, "sql")
    assert "pip" not in make(checkout, "serve")


def test_a_wheel_of_the_other_kind_replaces_the_one_before(checkout: Path) -> None:
    assert BUILD in make(checkout, "wheel", "COMPILE=0")
    assert BUILD in make(checkout, "wheel")


# ---- what the pages say


LINE = re.compile(r"(?:\S*/)?pip(?: --\S+)* install [^`#\n]*[^`#\s]")


def pip_lines() -> list[tuple[str, str]]:
    pages = sorted({*tree.ROOT.glob("*.md"), *tree.ROOT.glob("docs/**/*.md")})
    return [
        (str(page.relative_to(tree.ROOT)), found[0])
        for page in pages
        for found in LINE.finditer(page.read_text("utf-8"))
        if page.name != "CHANGELOG.md"
    ]


def test_there_are_lines_with_pip() -> None:
    assert len(pip_lines()) >= 6


@pytest.mark.parametrize(("page", "line"), pip_lines())
def test_the_shell_passes_on_what_a_page_says(page: str, line: str, tmp_path: Path) -> None:
    """With a wheel of whatever version and platform, and with files that `[sql]` would match."""
    wheel = "dist/daybook_broker-7.8.9-cp311-cp311-linux_x86_64.whl"
    (tmp_path / "dist").mkdir()
    for name in (wheel, wheel + "s", ".s", ".q"):
        (tmp_path / name).touch()
    words = line.partition(" ")[2]
    done = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {words}"], cwd=tmp_path, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    for word in done.stdout.splitlines():
        assert "*" not in word, f"{page}: {line}"
        if "dist/" in word:
            assert re.fullmatch(re.escape(wheel) + r"(\[\w+\])?", word), f"{page}: {line}"
    for extra in re.findall(r"\[\w+\]", line):
        assert extra in done.stdout, f"{page}: the shell expands {extra} in {line}"
        assert re.search(r"""["'][^"']*\[\w+\]["']""", line), f"{page}: no quotes in {line}"
