"""Parses and checks the options of `format("journal")`, which Spark passes as texts.

Must never know Spark: options are a mapping of texts.
"""

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

import msgspec

from daybook.pipeline.planning import SPLIT_BYTES, Source
from daybook.pipeline.schema import check_columns
from daybook.pipeline.selection import OPTIONS as SELECTION_OPTIONS
from daybook.pipeline.selection import Selection, SelectionError, from_options

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
LEASE_SECONDS: Final = 600
LEASE_SECONDS_MAX: Final = 24 * 60 * 60

COMMON: Final = (
    "path", "archive", "columns", "splitBytes", "leaseSeconds", *SELECTION_OPTIONS, "selection",
)  # fmt: skip
"""Options of a batch; those of BATCH_ONLY are not for a stream."""
STREAM_ONLY: Final = ("startingLsn", "endingLsn", "maxRowsPerBatch")
BATCH_ONLY: Final = ("lsn", "selection")


class SourceOptions(msgspec.Struct, frozen=True):
    """What to read, and how.

    `starting_lsn` is `earliest`, `latest` or a number; `ending_lsn` is inclusive, as is the end of
    every span; `max_rows` 0 means no limit.
    """

    source: Source
    columns: tuple[str, ...]
    selection: Selection
    split_bytes: int
    lease_seconds: int
    starting_lsn: str = EARLIEST
    ending_lsn: int | None = None
    max_rows: int = 0


def read_options(options: Mapping[str, str]) -> SourceOptions:
    """Parse the options; upper and lower case of names do not matter. Raises SelectionError."""
    given = {_spelled(name): text for name, text in options.items()}
    source = Source(_absolute(given.get("path", "")), _absolute(given.get("archive", "")))
    if not (source.directory or source.archive):
        raise SelectionError(
            'name the data directory of a broker: load("DIR"), or an archive: '
            'option("archive", "DIR or URL"), or both as one history'
        )
    columns = given.get("columns", "*").split(",")
    ending = given.get("endingLsn", "")
    return SourceOptions(
        source,
        check_columns(name.strip() for name in columns if name.strip()),
        _selection(given),
        _number(given, "splitBytes", SPLIT_BYTES, 1),
        _number(given, "leaseSeconds", LEASE_SECONDS, 1, LEASE_SECONDS_MAX),
        _starting_lsn(given.get("startingLsn", EARLIEST)),
        _number(given, "endingLsn", 1, 1) if ending else None,
        _number(given, "maxRowsPerBatch", 0, 1),
    )


def options_of(source: Source, columns: Sequence[str], selection: Selection) -> dict[str, str]:
    """Return the options for this selection of a source."""
    asked = {
        "path": _absolute(source.directory),
        "archive": _absolute(source.archive),
        "columns": ",".join(columns),
        "selection": msgspec.json.encode(selection).decode(),
    }
    return {name: text for name, text in asked.items() if text}


def refuse(options: Mapping[str, str], names: tuple[str, ...], instead: str) -> None:
    """Raise SelectionError if one of these options is given; `instead` says what to use."""
    given = {name.lower(): name for name in names}
    for name in options:
        if name.lower() in given:
            raise SelectionError(f"option {given[name.lower()]} is not possible here: {instead}")


def _spelled(name: str) -> str:
    """Return the right spelling of an option."""
    known = {each.lower(): each for each in (*COMMON, *STREAM_ONLY)}
    spelled = known.get(name.lower())
    if spelled is None:
        close = get_close_matches(name.lower(), known, n=1)
        hint = f"did you mean {known[close[0]]}?" if close else f"options: {', '.join(COMMON)}"
        raise SelectionError(f"the journal has no option '{name}'; {hint}")
    return spelled


def _selection(options: Mapping[str, str]) -> Selection:
    """Parse the selection; programs pass it as JSON, because names may contain commas."""
    packed = options.get("selection", "")
    if not packed:
        return from_options(options)
    refuse(options, SELECTION_OPTIONS, "option selection includes it")
    try:
        return msgspec.json.decode(packed, type=Selection)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise SelectionError(f"option selection is not a Selection as JSON: {error}") from error


def _absolute(path: str) -> str:
    """Return a path that is the same in every process; URLs as they are."""
    return path if not path or "://" in path else os.path.abspath(path)  # noqa: PTH100


def _number(
    options: Mapping[str, str], name: str, default: int, low: int, high: int | None = None
) -> int:
    text = options.get(name, "")
    if not text:
        return default
    number = int(text) if text.isascii() and text.isdigit() else low - 1
    if number < low or (high is not None and number > high):
        span = f"from {low} on" if high is None else f"from {low} to {high}"
        raise SelectionError(f"option {name} is '{text}'; write a whole number {span}")
    return number


def _starting_lsn(text: str) -> str:
    word = text.strip().lower()
    if word in (EARLIEST, LATEST) or (word.isascii() and word.isdigit() and int(word)):
        return word
    raise SelectionError(
        f"option startingLsn is '{text}'; write {EARLIEST}, {LATEST} or a whole number from 1 on"
    )
