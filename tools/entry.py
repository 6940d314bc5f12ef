"""The commands as they are installed: quiet about Ctrl-C from the first moment on.

Loading a command can take a good part of a second. Interrupting it then stops nothing that has
begun, so there is no traceback, only the exit code of an interrupt. Must import nothing slow.
"""

import os
import signal
from types import FrameType
from typing import NoReturn

EXIT_INTERRUPTED = 130
"""What shells give a command that SIGINT ended (128 + 2)."""


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
