"""Processes of our own that this one starts: with the same package, and from nowhere else.

`python -m` imports from the working directory before all else, and whoever may write there could
have anything run as the user of the broker. A child is started with -P instead, and finds the
package where this one has it: behind the standard library, so that nothing beside it stands in for
that, and before what is installed. PYTHONPATH is the user's own choice, and is obeyed.
Signals that the broker blocks (`server.guard`) are not blocked in a child. Must never know what a
child does.
"""

import sys
from pathlib import Path
from typing import Final

import daybook

# As it was found: behind a link the folder would be the checkout's, where rooms are no packages.
_ROOT: Final = Path(daybook.__file__).parent.parent.absolute()
_BEGIN: Final = (
    "import importlib, signal, sys; root, module, *words = sys.argv[1:]; "
    "signal.pthread_sigmask(signal.SIG_SETMASK, ()); "
    "installed = [n for n, path in enumerate(sys.path) if path.endswith('-packages')]; "
    "sys.path.insert(min(installed, default=len(sys.path)), root); "
    "sys.exit(importlib.import_module(module).main(words))"
)


def child_command(module: str, *words: str) -> list[str]:
    """The command line that calls `main(words)` of a module of ours, in a process of its own."""
    return [sys.executable, "-P", "-c", _BEGIN, str(_ROOT), module, *words]
