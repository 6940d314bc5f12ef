"""Preloaded libraries (LD_PRELOAD), compiled from a C file beside the module that uses them."""

import shutil
import subprocess
from pathlib import Path


class NoCompiler(Exception):
    """There is no C compiler, or it cannot make the library."""


def compile_library(source: Path, folder: Path) -> Path:
    """Compile a C file into a folder and return the path of the library; raises NoCompiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NoCompiler("no C compiler (cc, gcc, clang) on this machine")
    library = folder / f"{source.stem}.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoCompiler(f"{compiler} cannot compile {source.name}: {done.stderr[:300]}")
    return library
