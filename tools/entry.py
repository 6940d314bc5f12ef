"""The commands as they are installed: quiet about Ctrl-C from the first moment on.

Loading the command line takes a good part of a second. Whoever interrupts it then has begun nothing
and gets no traceback, but the exit code of an interrupt. Must never import anything slow itself.
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
    """Have SIGINT end the process at once, unless whoever started it has it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    os._exit(EXIT_INTERRUPTED)
