"""What is installed is ours, whole, and starts from anywhere (docs/adr/0005-package-names.md)."""

import importlib.util
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType

import pytest

from tests.meta import tree

OURS = "daybook-broker"
SCRIPTS = sorted(tree.project()["project"]["scripts"])


def run(*command: str | Path, cwd: str | Path = "/") -> str:
    """Run a command; return what it prints, or fail with it."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def foreign(names: list[str], owners: dict[str, list[str]]) -> list[str]:
    """Return the packages that another distribution, too, or no distribution at all, provides."""
    return [name for name in names if set(owners.get(name, [])) != {OURS}]


def declared_packages() -> dict[str, list[str]]:
    """Return who provides which top-level package, editable installs included."""
    owners = dict(packages_distributions())
    # An editable install has no files of ours in its record, but a path to where they are.
    for link in Path(sysconfig.get_path("purelib")).glob("__editable__.daybook_broker-*.pth"):
        for init in Path(link.read_text("utf-8").strip()).glob("*/__init__.py"):
            owners[init.parent.name] = [*owners.get(init.parent.name, []), OURS]
    return {name: sorted(set(each)) for name, each in owners.items()}


def test_an_editable_install_is_a_plain_path_that_warns_of_nothing() -> None:
    # Else setuptools maps the packages one by one, and prints ten lines of warning about that.
    assert tree.project()["tool"]["setuptools"]["package-dir"] == {"": "."}


def test_each_room_is_ours_alone() -> None:
    assert not foreign(tree.rooms(), declared_packages())


def test_each_package_lies_below_our_root() -> None:
    for name in tree.packages():
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None, f"{name} has no __init__.py"
        assert Path(spec.origin).is_relative_to(tree.ROOT), spec.origin


def test_a_foreign_package_of_our_name_is_found() -> None:
    owners = {"engine": [OURS], "journal": [OURS, "journal-of-others"], "server": ["others"]}
    assert foreign(["engine", "journal", "server", "tools"], owners) == [
        "journal",
        "server",
        "tools",
    ]


def test_every_folder_with_sources_is_a_listed_package() -> None:
    folders = {path.parent for path in tree.sources(tree.ROOT, *tree.rooms())}
    found = {".".join(folder.relative_to(tree.ROOT).parts) for folder in folders}
    assert found == set(tree.packages())


def test_no_room_hides_a_module_of_the_standard_library() -> None:
    assert not set(tree.rooms()) & set(sys.stdlib_module_names)


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_console_scripts_start_from_anywhere(script: str) -> None:
    assert "Usage" in run(Path(sys.executable).with_name(script), "--help")


def setup_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("setup_script", tree.ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_hot_is_compiled() -> None:
    compiled = setup_script().hot_modules()
    assert {"engine/apply.py", "engine/core.py", "engine/delivery.py"} <= set(compiled)
    # Its details leave out defaults on disk, which is said by a keyword of the class.
    assert "engine/events.py" not in compiled
    assert not [name for name in compiled if name.endswith("__init__.py")]


@pytest.mark.parametrize(
    ("source", "loses"),
    [
        ("class A(Struct, frozen=True):\n    x: int\n", True),
        ("class A(Struct):\n    x: list[int] = msgspec.field(default_factory=list)\n", True),
        ("class A(Struct):\n    x: int = 0\n", False),
        ("def f(x: int) -> int:\n    return g(x, y=1)\n", False),
    ],
)
def test_what_the_compiler_would_change_is_left_alone(source: str, loses: bool) -> None:
    assert setup_script().loses_meaning(source) is loses


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the sources, so that the checkout stays clean."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(tree.ROOT / name, source)
    for room in tree.rooms():
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(tree.ROOT / room, source / room, ignore=ignored)
    shutil.copytree(tree.ROOT / "etc", source / "etc")
    target = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run(*pip, "--wheel-dir", target, source)
    (built,) = target.glob("*.whl")
    return built


def test_the_wheel_holds_the_rooms_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    inside = {name for name in names if not re.search(r"\.(dist-info|data)/", name)}
    expected = {str(path.relative_to(tree.ROOT)) for path in tree.sources(tree.ROOT, *tree.rooms())}
    assert inside == expected
    shipped = [name for name in names if ".data/" in name]
    assert sorted(name.partition(".data/")[2] for name in shipped) == [
        "data/share/daybook/broker.toml", "data/share/daybook/daybook.service",
    ]  # fmt: skip
    assert any(name.endswith("/licenses/LICENSE") for name in names)


@pytest.mark.slow
def test_the_wheel_runs_without_the_sources(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--quiet", wheel)
    # The dependencies come from this environment; its editable install is not seen that way.
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run(python, "-c", f"import {', '.join(tree.rooms())}; print(engine.__file__)")
    assert Path(where.strip()).is_relative_to(site)
    for script in SCRIPTS:
        assert "Usage" in run(python.with_name(script), "--help")
    run(python.with_name("daybook"), "init", tmp_path / "made")
    made = (tmp_path / "made" / "broker.toml").read_text("utf-8")
    assert "[[address-setting]]" in made
