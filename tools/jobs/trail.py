"""`daybook pipeline trail`: the histories of many messages at once.

Exit code 1 if one of them is unknown.
"""

import re
import sys
from pathlib import Path
from typing import Any, Final

import click

from daybook.pipeline.jobs.trail import TRAIL, trail
from daybook.tools.jobs.job import engine_of, job_of
from daybook.tools.jobs.output import output_of, working, write
from daybook.tools.terminal.failures import Failure

NAMED_MOST: Final = 10
ID_MOST: Final = (1 << 63) - 1
_SEPARATORS: Final = re.compile(r"[\s,;]+")
_NUMBERS: Final = re.compile(r"[0-9]+(,[0-9]+)*")


def run(ids: tuple[str, ...], sources: tuple[str, ...], **flags: Any) -> None:
    """Run the job."""
    output = output_of(flags)
    job = job_of(flags)
    wanted = [number for text in (*ids, *sources) for number in _ids(text)]
    if not wanted:
        raise click.UsageError("name messages: as ID, or in a file with --messages FILE")
    with working("trail") as told, engine_of(job) as engine:
        found = trail(engine, job.history, wanted, told)
        optional = ("address", "connection", "user", "related", "detail", "note")
        count = write(output, TRAIL, found.batches, optional=optional)
    messages = sum(len(members) for members in found.families.values())
    click.echo(
        f"{count:,} rows of {messages:,} messages in {len(found.families):,} families", err=True
    )
    if found.missing:
        named = ", ".join(str(number) for number in found.missing[:NAMED_MOST])
        more = len(found.missing) - NAMED_MOST
        rest = f" and {more:,} more" if more > 0 else ""
        text = f"nothing is known of these ids: {named}{rest}; a message's id is the LSN of its "
        text += "Routed event"
        raise Failure(text)


def _ids(text: str) -> list[int]:
    """Return the ids in an argument, which is an id or a file."""
    if _NUMBERS.fullmatch(text):
        return [_id(part) for part in text.split(",")]
    if text == "-":
        content = sys.stdin.read()
    else:
        try:
            content = Path(text).read_text("utf-8")
        except UnicodeDecodeError as error:
            raise click.UsageError(f"{text} is not text; write ids in lines") from error
        except FileNotFoundError as error:
            raise click.UsageError(
                f"'{text}' is neither the id of a message nor a file that has some"
            ) from error
    parts = [part for part in _SEPARATORS.split(content) if part]
    for part in parts:
        if not _NUMBERS.fullmatch(part):
            raise click.UsageError(f"{text} has '{part}', which is not the id of a message")
    return [_id(part) for part in parts]


def _id(text: str) -> int:
    number = int(text)
    if not 0 < number <= ID_MOST:
        raise click.UsageError(
            f"{text} is not the id of a message; it is the LSN of the message's Routed event, "
            "a whole number from 1 on"
        )
    return number
