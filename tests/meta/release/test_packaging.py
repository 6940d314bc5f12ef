"""The installation is one whole package that starts from anywhere (docs/adr/0029)."""

import ast
import importlib.util
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest

from release import manuals
from tests.meta import tree
from tests.meta.code import tidy
from tests.support.suite.building import build_archive, build_wheel, copy_sources

SCRIPTS = sorted(tree.project()["project"]["scripts"])


def run(*command: str | Path, cwd: str | Path = "/") -> str:
    """Run a command; return what it prints, or fail with it."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_an_editable_install_is_a_plain_path_that_warns_of_nothing() -> None:
    # Else setuptools maps the packages one by one, and prints ten lines of warning about that.
    assert tree.project()["tool"]["setuptools"]["package-dir"] == {"": "src"}


def test_each_room_is_a_link_in_the_package() -> None:
    package = tree.ROOT / "src" / tree.PACKAGE
    links = {path.name: path for path in package.iterdir() if path.is_symlink()}
    assert sorted(links) == tree.rooms()
    for name, link in links.items():
        assert link.readlink() == Path("..", "..", name)


def test_every_folder_with_sources_is_a_listed_package() -> None:
    folders = {path.parent for path in tree.sources(tree.ROOT, *tree.rooms())}
    found = {".".join((tree.PACKAGE, *folder.relative_to(tree.ROOT).parts)) for folder in folders}
    assert found | {tree.PACKAGE} == set(tree.packages())


def test_no_source_imports_a_room_by_its_folder() -> None:
    """From the top of the repository `import engine` would work, and make every class twice."""
    bare = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(tree.rooms())})\b", re.MULTILINE)
    everything = tree.sources(tree.ROOT, *tree.rooms(), "bench", "tests", "src")
    assert not [path for path in everything if bare.search(path.read_text("utf-8"))]


def extras() -> dict[str, list[str]]:
    found: dict[str, list[str]] = tree.project()["project"]["optional-dependencies"]
    return found


def test_the_extra_all_brings_each_other() -> None:
    (named,) = extras()["all"]
    others = re.search(r"\[(.*)\]", named)
    assert others
    assert sorted(others[1].split(",")) == sorted(extras().keys() - {"all"})


def test_the_readme_lists_the_extras() -> None:
    part = (
        (tree.ROOT / "README.md").read_text("utf-8").partition("## Extras")[2].partition("\n## ")[0]
    )
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", part, re.MULTILINE)) == sorted(extras())


def test_tools_for_tests_are_not_asked_of_who_runs_a_broker() -> None:
    needed = " ".join(tree.project()["project"]["dependencies"])
    assert not [name for name in ("pytest", "mypy", "pyspark", "duckdb", "stomp") if name in needed]


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
    assert {"engine/state/apply.py", "engine/core/core.py", "engine/dispatch/dispatch.py"} <= set(
        compiled
    )
    # Its details leave out defaults on disk, which is said by a keyword of the class.
    assert "engine/facts/events.py" not in compiled
    assert not [name for name in compiled if name.endswith("__init__.py")]
    assert not setup_script().COLD & set(compiled)
    assert all((tree.ROOT / name).is_file() for name in setup_script().COLD)


def test_a_name_of_caught_errors_has_one_type_where_code_is_compiled() -> None:
    assert not [
        finding
        for name in setup_script().hot_modules()
        for finding in tidy.mixed_errors(setup_script().PACKAGE / name)
    ]


def test_no_interpreted_class_has_a_compiled_base() -> None:
    """Its module could not be imported where the base is compiled. Errors are an exception: their
    classes are made in the same way either way."""
    hot = {
        tree.module_name(tree.ROOT, tree.ROOT / name)
        for name in setup_script().hot_modules()
        if "/" in name
    }
    wrong = [
        f"{path}: {found}"
        for path in tree.sources(tree.ROOT, *tree.rooms())
        if tree.module_name(tree.ROOT, path) not in hot
        for found in bases_from(path, hot)
    ]
    assert len(hot) > 100
    assert not wrong, wrong


def bases_from(path: Path, hot: set[str]) -> Iterator[str]:
    """Classes whose base is imported by name from one of these modules, and is not an error."""
    module = tree.parsed(path)
    imported = {
        alias.asname or alias.name: node.module
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(module):
        for base in node.bases if isinstance(node, ast.ClassDef) else ():
            name = ast.unparse(base).partition("[")[0]
            if imported.get(name) in hot and not name.endswith("Error"):
                yield ast.unparse(node).splitlines()[0]


def test_slices_of_the_compiled_runtime_are_repaired_or_the_build_ends(tmp_path: Path) -> None:
    script = setup_script()
    runtime = tmp_path / "bytes_ops.c"
    runtime.write_text(f"before\n{script.SLICE_WITHOUT_CHECK}\nbehind\n")
    for _ in range(2):
        script.repair_slices({str(tmp_path / "other.c"), str(runtime)})
        assert runtime.read_text() == f"before\n{script.SLICE_AS_IT_SHOULD_BE}\nbehind\n"
    runtime.write_text("something else")
    with pytest.raises(SystemExit, match="slices bytes in a way"):
        script.repair_slices({str(runtime)})


def test_two_types_under_one_name_are_found(tmp_path: Path) -> None:
    path = tmp_path / "mixed.py"
    body = "def f():\n    try:\n        g()\n    except KeyError as {0}:\n        h({0})\n"
    path.write_text(body.format("error") + "    except OSError as error:\n        h(error)\n")
    assert [finding.partition(": ")[2] for finding in tidy.mixed_errors(path)]
    path.write_text(body.format("missing") + "    except OSError as error:\n        h(error)\n")
    assert not list(tidy.mixed_errors(path))


@pytest.mark.parametrize(
    ("source", "loses"),
    [
        ("class A(Struct, frozen=True):\n    x: int\n", True),
        ("class A(Struct):\n    x: list[int] = msgspec.field(default_factory=list)\n", True),
        ("class A(Struct):\n    x: int = 0\n", False),
        ("def f(x: int) -> int:\n    return g(x, y=1)\n", False),
        ("try:\n    f()\nexcept KeyError:\n    with g():\n        yield 1\n", True),
        ("try:\n    yield f()\nexcept KeyError:\n    g()\nfinally:\n    h()\n", False),
    ],
)
def test_what_the_compiler_would_change_is_left_alone(source: str, loses: bool) -> None:
    assert setup_script().loses_meaning(source) is loses


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_one_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    inside = {name for name in names if not re.search(r"\.(dist-info|data)/", name)}
    rooms = tree.sources(tree.ROOT, *tree.rooms())
    expected = {f"{tree.PACKAGE}/{path.relative_to(tree.ROOT)}" for path in rooms}
    beside = (
        "__init__", "__main__", "errors", "levels", "scratch_folders", "texts", "times", "version",
    )  # fmt: skip
    own = {f"{tree.PACKAGE}/{name}.py" for name in beside} | {f"{tree.PACKAGE}/py.typed"}
    shown = (tree.ROOT / "console" / name for name in ("static", "templates"))
    files = {
        f"{tree.PACKAGE}/{path.relative_to(tree.ROOT)}"
        for folder in shown
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert len(files) > 10
    assert inside == expected | own | files
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def shipped(wheel: Path) -> set[str]:
    """The files that a wheel puts beside the package, relative to the environment."""
    names = zipfile.ZipFile(wheel).namelist()
    return {name.partition(".data/data/")[2] for name in names if ".data/data/" in name}


def test_the_wheel_brings_every_page_manual_and_completion(wheel: Path) -> None:
    pages = [path for path in (tree.ROOT / "docs").rglob("*.*") if "__pycache__" not in path.parts]
    expected = {f"share/doc/daybook/{path.relative_to(tree.ROOT)}" for path in pages}
    expected |= {f"share/doc/daybook/{path.name}" for path in tree.ROOT.glob("*.md")}
    commands = [
        context.command_path.replace(" ", "-")
        for program, command in manuals.PROGRAMS.items()
        for context in manuals.contexts(click.Context(command, info_name=program))
    ]
    assert len(commands) > 80
    expected |= {f"share/man/man1/{name}.1" for name in commands}
    for place in manuals.COMPLETIONS.values():
        expected |= {f"share/{place.format(program)}" for program in manuals.PROGRAMS}
    for name in (
        "broker.toml",
        "daybook.service",
        "grafana-dashboard.json",
        "prometheus-alerts.yaml",
        "spark/daybook_pipeline.py",
    ):
        expected.add(f"share/daybook/{name}")
    assert shipped(wheel) == expected | {"share/doc/daybook/LICENSE"}


def test_what_documents_and_units_say_of_the_installation_is_there(wheel: Path) -> None:
    """Every path below share/ that a page, the unit or the help names."""
    there = shipped(wheel) | {str(up) for name in shipped(wheel) for up in Path(name).parents}
    texts = [path.read_text("utf-8") for path in tree.pages()]
    texts.append((tree.ROOT / "etc" / "daybook.service").read_text("utf-8"))
    named = {
        found.rstrip("./")
        for text in texts
        for found in re.findall(r"(?<![\w-])share/(?:[\w.-]+/?)+", text)
        if not found.startswith(("share/doc/daybook.service", "share/zoneinfo"))
    }
    assert {"share/daybook", "share/daybook/daybook.service", "share/man"} <= named
    assert not named - there


def test_the_archive_of_the_sources_has_what_the_wheel_is_made_of(
    wheel: Path, tmp_path: Path
) -> None:
    (source := tmp_path / "source").mkdir()
    (target := tmp_path / "target").mkdir()
    copy_sources(source)
    with tarfile.open(build_archive(source, target)) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
        assert not [each for each in opened.getmembers() if each.issym() or each.islnk()]
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("daybook/")}
    assert {f"src/{name}" for name in inside} <= names
    beside = {name.removeprefix("share/doc/daybook/") for name in shipped(wheel)}
    etc = {re.sub("^share/daybook/", "etc/", name) for name in beside}
    assert etc <= names
    assert {"setup.py", "pyproject.toml", "requirements.lock"} <= names


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with the wheel, and nothing of the checkout."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--quiet", wheel)
    # The dependencies come from this environment; its editable install is not seen that way.
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.mark.slow
def test_the_wheel_runs_without_the_sources(installed: Path, tmp_path: Path) -> None:
    where = run(installed, "-c", f"import daybook.{tree.rooms()[0]}; print(daybook.__file__)")
    assert Path(where.strip()).is_relative_to(installed.parent.parent)
    for script in SCRIPTS:
        assert "Usage" in run(installed.with_name(script), "--help")
    run(installed.with_name("daybook"), "init", tmp_path / "made")
    made = (tmp_path / "made" / "broker.toml").read_text("utf-8")
    assert "[[address-setting]]" in made


@pytest.mark.slow
def test_nothing_but_one_package_is_installed(installed: Path) -> None:
    (site,) = (installed.parent.parent / "lib").glob("python*/site-packages")
    ours = {path.name for path in site.iterdir() if not path.name.endswith((".dist-info", ".pth"))}
    assert ours - {"__pycache__"} == {tree.PACKAGE}


TRAP = "raise SystemExit('a module of the working directory was run')\n"
NAMES = ["server", "tools", "pipeline", "paging", "select", "queue", "engine", "journal", "daybook"]


@pytest.mark.slow
def test_a_folder_with_names_of_ours_changes_nothing(installed: Path, tmp_path: Path) -> None:
    """Neither the commands nor the processes of a broker import from the working directory."""
    for name in NAMES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(TRAP)
        (tmp_path / f"{name}.py").write_text(TRAP)
    daybook, journal = installed.with_name("daybook"), installed.with_name("journal")
    broker = subprocess.Popen(
        [daybook, "serve", "--data", "data", "--listen", "stomp://127.0.0.1:0",
         "--set", "journal.checkpoint-period=100"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    with broker:
        assert broker.stdout is not None
        try:
            said = ""
            while "ready" not in said:
                line = broker.stdout.readline()
                assert line, said
                said += line
            url = re.search(r"stomp://127.0.0.1:\d+", said)
            assert url, said
            run(daybook, "send", "/queue/here", "text", "--url", url.group(), cwd=tmp_path)
            assert "here" in run(daybook, "queue", "list", cwd=tmp_path)
            received = run(daybook, "receive", "/queue/here", "--url", url.group(), cwd=tmp_path)
            assert "text" in received
        finally:
            broker.terminate()
            broker.communicate(timeout=60)
    assert broker.returncode == 0
    assert "here" in run(journal, "inspect", "data", cwd=tmp_path)
    run(journal, "verify", "data", cwd=tmp_path)


@pytest.mark.slow
def test_a_notebook_imports_the_pipeline_by_its_name(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "pipeline.py").write_text(TRAP)
    (tmp_path / "engine.py").write_text(TRAP)
    shown = "from daybook.pipeline.spark import session; print(session.register.__name__)"
    assert run(installed, "-c", shown, cwd=tmp_path) == "register\n"


@pytest.mark.slow
def test_a_type_checker_sees_our_types(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(
        "import daybook.server.users.users as u\n\nx: int = u.Users\n"
    )
    command = (sys.executable, "-m", "mypy", "--python-executable", installed, "user.py")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 'Incompatible types in assignment (expression has type "type[Users]"' in done.stdout
