"""Starting child processes from the same package only.

`python -m` imports from the working directory first, so anybody who may write there could run code
as the user of the broker. A child is started with -P instead, and finds the package where this
process has it: after the standard library, so that no module beside the package replaces it, and
before installed packages. PYTHONPATH is the user's own choice, and is respected. Signals that the
broker blocks (`server.process.guard`) are not blocked in a child. Must never know the work of a
child.
"""

import sys
from pathlib import Path
from typing import Final

import daybook

# The path as it was found: a resolved link would lead to the checkout, where rooms are not
# packages.
_ROOT: Final = Path(daybook.__file__).parent.parent.absolute()
_BEGIN: Final = (
    "import importlib, signal, sys; root, module, *words = sys.argv[1:]; "
    "signal.pthread_sigmask(signal.SIG_SETMASK, ()); "
    "installed = [n for n, path in enumerate(sys.path) if path.endswith('-packages')]; "
    "sys.path.insert(min(installed, default=len(sys.path)), root); "
    "sys.exit(importlib.import_module(module).main(words))"
)


def child_command(module: str, *words: str) -> list[str]:
    """The command line that calls `main(words)` of one of our modules in a process of its own."""
    return [sys.executable, "-P", "-c", _BEGIN, str(_ROOT), module, *words]
