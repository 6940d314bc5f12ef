"""Structured logs on standard error: for people on a terminal, JSON lines otherwise.

This module must never log a secret: values with names of secrets are masked, and tracebacks have no
local variables. A peer's text must never control a terminal: unprintable characters are escaped.

Fault model: standard error may be closed, a broken pipe, a full disk, or a pipe without a reader.
A line that cannot be written is lost, and the number of lost lines is logged later; the broker
never waits.
"""

import fcntl
import json
import logging
import os
import select
import stat
import sys
import termios
from collections.abc import Iterable, MutableMapping
from contextlib import suppress
from typing import Any, Final, TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
MASK: Final = "***"
STANDARD_OUTPUT: Final = 1
_SECRETS: Final = ("passcode", "password", "passwd", "secret", "token", "credential")
_threshold = logging.INFO


class _Lines:
    """Writes finished lines; replaces structlog's WriteLogger."""

    lost = 0
    """The number of lost lines of standard error."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, message: str) -> None:
        # A closed stream raises ValueError.
        with suppress(OSError, ValueError):
            if _Lines.lost:
                message = f"{_lost(_Lines.lost, as_json=message.startswith('{'))}\n{message}"
            if not _has_room(self._stream, len(message.encode("utf-8", "replace"))):
                _Lines.lost += 1
                return
            _Lines.lost = 0
            self._stream.write(message + "\n")
            self._stream.flush()

    debug = info = warning = warn = error = critical = exception = fatal = log = msg


def _lost(count: int, *, as_json: bool) -> str:
    text = f"{count} lines before this one were lost, because the output was not read"
    return json.dumps({"part": "logs", "event": text, "level": "warning"}) if as_json else text


def _has_room(stream: TextIO, count: int) -> bool:
    """Return whether `count` bytes can be written to a pipe or socket without waiting."""
    try:
        descriptor = stream.fileno()
        kind = os.fstat(descriptor).st_mode
    except OSError:
        # Not a file of the system; io.UnsupportedOperation is an OSError too.
        return True
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
        return True
    if not select.select([], [descriptor], [], 0)[1]:
        return False
    # A writable pipe has space for PIPE_BUF bytes; it does not say whether it has more.
    return count < select.PIPE_BUF or not stat.S_ISFIFO(kind) or _free_bytes(descriptor) > 4 * count


def _free_bytes(pipe: int) -> int:
    """Return how many bytes fit into a pipe at least."""
    waiting = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) - int.from_bytes(waiting, sys.byteorder)


def announce(text: str) -> None:
    """Print a line for the program that started the broker. That its output is on a full disk, or
    that nobody reads it any more, must not end the broker."""
    with suppress(OSError):
        os.write(STANDARD_OUTPUT, f"{text}\n".encode())


class _StandardLibraryHandler(logging.Handler):
    """Writes the logs of libraries (mainly asyncio) to the same stream."""

    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelname.lower() if record.levelname.lower() in LEVELS else "error"
        write = getattr(logger(record.name), level)
        write(record.getMessage(), exc_info=record.exc_info)


def configure(level: str, format: str, stream: TextIO | None = None) -> None:
    """Set logging up for this process. Level and format are those of the section [log].

    `stream` is standard error unless given. May be called again.
    """
    set_level(level)
    stream = stream if stream is not None else sys.stderr
    terminal = _is_terminal(stream)
    human = format == "human" or (format == "auto" and terminal)
    structlog.configure(
        processors=[
            _drop_below_threshold,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _mask_secrets,
            *(_for_people(colors=terminal) if human else _for_machines()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=lambda *_: _Lines(stream),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, _StandardLibraryHandler)]:
        root.removeHandler(handler)
    root.addHandler(_StandardLibraryHandler(logging.WARNING))


def set_level(level: str) -> None:
    """Change the level ("debug", "info", "warning", "error") of all loggers, at any time."""
    global _threshold  # noqa: PLW0603 - the level belongs to the process, as its standard error does
    _threshold = LEVELS[level]


def logger(name: str, **values: object) -> FilteringBoundLogger:
    """Return a logger for a part of the broker; `values` are added to each of its lines."""
    return cast("FilteringBoundLogger", structlog.get_logger(part=name, **values))


def warn_all(log: FilteringBoundLogger, sentences: Iterable[str], **values: object) -> None:
    """Log each sentence as a warning; `values` are added to each line."""
    for sentence in sentences:
        log.warning(sentence, **values)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False


def _for_people(*, colors: bool) -> list[Processor]:
    renderer = structlog.dev.ConsoleRenderer(
        colors=colors, exception_formatter=structlog.dev.plain_traceback
    )
    return [_say_plainly, renderer]


def _for_machines() -> list[Processor]:
    transformer = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    return [
        structlog.processors.ExceptionRenderer(transformer),
        structlog.processors.JSONRenderer(ensure_ascii=True),
    ]


def _drop_below_threshold(_: WrappedLogger, method: str, event: EventDict) -> EventDict:
    # "exception" and "critical" are not in the table and always pass.
    if LEVELS.get(method, logging.CRITICAL) < _threshold:
        raise structlog.DropEvent
    return event


def _mask_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return _masked(event)


def _masked(values: MutableMapping[str, Any]) -> dict[str, Any]:
    masked: dict[str, Any] = {}
    for key, value in values.items():
        if any(word in str(key).lower() for word in _SECRETS):
            masked[key] = MASK
        else:
            masked[key] = _masked(value) if isinstance(value, dict) else value
    return masked


def _say_plainly(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {
        # The renderer writes exceptions on separate lines.
        key: value if key in ("exc_info", "stack_info") else _plain(value)
        for key, value in event.items()
    }


def _plain(value: object) -> object:
    """Convert a value to text without the quotes and brackets of Python."""
    if isinstance(value, list | tuple):
        return ", ".join(str(_plain(each)) for each in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    return _printable(value) if isinstance(value, str) else value


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text
    )
