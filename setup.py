"""Builds as pyproject.toml says; with DAYBOOK_COMPILE=1 the hot modules are compiled by mypyc.

The compiled modules come from the same sources, which always run uncompiled too. An editable
install stays uncompiled: in a checkout the sources must be what runs.
"""

import ast
import os
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
PACKAGE = ROOT / "src" / "daybook"
HOT = (
    "errors.py",
    "engine/**/*.py",
    "journal/**/*.py",
    "paging/**/*.py",
    "protocols/amqp/**/*.py",
    "protocols/stomp/**/*.py",
    "server/hub/hub.py",
    "server/hub/blocked.py",
    "server/hub/deadlines.py",
    "server/hub/memory.py",
    "server/hub/outbox.py",
    "server/hub/peer.py",
    "server/users/login_refusals.py",
    "server/hub/slow_consumers.py",
    "server/hub/turns.py",
)
COLD = {
    # Tests, benchmarks and modules that are not compiled subclass what these define, which compiled
    # classes do not allow; what they do is wait for the operating system.
    "journal/disk.py",
    "journal/read_only.py",
    "paging/indexer/indexers.py",
    "paging/indexer/process.py",
    "paging/indexer/thread.py",
    # Its classes are found and called by the parser's library, once for each filter.
    "engine/filters/grammar.py",
}
COMPILER = "mypy>=1.18"
# Commands that ask what the project is and requires: nothing is compiled for the answer.
ONLY_ASKING = {"egg_info", "dist_info"}


def loses_meaning(source: str) -> bool:
    """Tell whether mypyc would change what the module means.

    It drops the keyword arguments of classes (`frozen`, `omit_defaults`, `gc`, ...) without a word,
    takes the defaults of fields that msgspec makes for values of the field's type, and crashes when
    an exception is thrown into a generator that yields while it handles another one.
    """
    return any(
        (
            isinstance(node, ast.ClassDef)
            and (node.keywords or "msgspec.field(" in ast.unparse(node))
        )
        or (isinstance(node, ast.ExceptHandler) and yields(node))
        for node in ast.walk(ast.parse(source))
    )


def yields(handler: ast.ExceptHandler) -> bool:
    """Tell whether an exception handler yields."""
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(handler))


def is_started(source: str) -> bool:
    """Tell whether the module is run by `python -m`, which needs its code, not an extension."""
    return '__name__ == "__main__"' in source


def hot_modules(root: Path = PACKAGE) -> list[str]:
    """Return the modules to compile, relative to the package."""
    return [
        name
        for pattern in HOT
        for path in sorted(root.glob(pattern))
        for name in [str(path.relative_to(root))]
        if name not in COLD and path.name != "__init__.py"  # a table of contents gains nothing
        for source in [path.read_text("utf-8")]
        if not loses_meaning(source) and not is_started(source)
    ]


SLICE_WITHOUT_CHECK = "Py_ssize_t slice_len = endn - startn;"
SLICE_AS_IT_SHOULD_BE = "Py_ssize_t slice_len = endn > startn ? endn - startn : 0;"


class BuildOnAllCores(build_ext):
    """Builds extensions, and the sources of each, on as many cores as this process may use."""

    def build_extensions(self) -> None:
        """Build all extensions."""
        cores = len(os.sched_getaffinity(0))
        self.parallel = self.parallel or cores
        compile_in_turn = self.compiler.compile
        with ThreadPoolExecutor(cores) as pool:

            def compile_together(sources: list[str], **how: Any) -> list[str]:
                compiled = pool.map(lambda source: compile_in_turn([source], **how), sources)
                return [name for names in compiled for name in names]

            self.compiler.compile = compile_together
            super().build_extensions()


def extensions() -> list[Any]:
    """Return the extensions that mypyc makes of the hot modules.

    One C file for each module: compiled side by side, that takes a quarter of the time of one file
    for all. Hidden symbols make calls between them as direct as within one file.
    """
    from mypyc.build import mypycify  # noqa: PLC0415 (only a compiling build needs it)

    made = mypycify(
        ["--strict", *(f"src/daybook/{name}" for name in hot_modules())],
        opt_level="3",
        debug_level="0",
        multi_file=True,
    )
    for extension in made:
        extension.extra_compile_args.append("-fvisibility=hidden")
    repair_slices({source for extension in made for source in extension.sources})
    return made


def repair_slices(sources: set[str]) -> None:
    """Have `data[5:3]` be empty in compiled code too, where mypyc's runtime raises SystemError.

    The copy of the runtime is changed that this build compiles. A runtime that is neither like the
    one that is known to be wrong nor mended is refused, because a slice of what a client sent must
    not end the broker.
    """
    (name,) = {source for source in sources if Path(source).name == "bytes_ops.c"}
    text = Path(name).read_text("utf-8")
    if SLICE_AS_IT_SHOULD_BE not in text:
        if text.count(SLICE_WITHOUT_CHECK) != 1:
            raise SystemExit(f"{name} slices bytes in a way that setup.py does not know; see there")
        changed = text.replace(SLICE_WITHOUT_CHECK, SLICE_AS_IT_SHOULD_BE)
        Path(name).write_text(changed, "utf-8")


def compile_arguments() -> dict[str, object]:
    """Return what setup() needs to compile, or to say what compiling requires."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    # mypyc reads the types of what the modules import, so those packages are needed to build.
    arguments: dict[str, object] = {"setup_requires": [COMPILER, *project["dependencies"]]}
    if not ONLY_ASKING & set(sys.argv):
        os.chdir(ROOT)
        arguments |= {"ext_modules": extensions(), "cmdclass": {"build_ext": BuildOnAllCores}}
    return arguments


if __name__ == "__main__":
    setup(**(compile_arguments() if os.environ.get("DAYBOOK_COMPILE") == "1" else {}))
