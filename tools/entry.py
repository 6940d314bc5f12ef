"""The installed commands: they handle Ctrl-C quietly from the first moment on.

Loading a command can take a good part of a second. An interrupt during that time stops no work, so
it prints no traceback and only sets the exit code. Must not import slow modules.
"""

import os
import signal
from types import FrameType
from typing import NoReturn

from daybook.tools.terminal.exit_codes import EXIT_INTERRUPTED


def daybook() -> None:
    """Run `daybook`."""
    _leave_quietly()
    from daybook.tools.daybook import main  # noqa: PLC0415 (slow, and after the signal is handled)

    main()


def journal() -> None:
    """Run `journal`."""
    _leave_quietly()
    from daybook.tools.journal_cli import main  # noqa: PLC0415 (slow, and after the signal is handled)

    main()


def _leave_quietly() -> None:
    """Make SIGINT end the process at once, unless it was started with SIGINT ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    os._exit(EXIT_INTERRUPTED)
