"""The option --memory: how much the embedded SQL engine may take before work goes to disk."""

from typing import Final

import click

from daybook.server.config_keys.kinds import Invalid, size

MEMORY_LEAST: Final = 64 << 20
MEMORY_MOST: Final = 1 << 44


def _memory(ctx: click.Context, param: click.Parameter, value: str | None) -> int:
    if value is None:
        return 0
    try:
        parsed = size(MEMORY_LEAST, MEMORY_MOST).parse(value)
    except Invalid as error:
        raise click.BadParameter(str(error), ctx, param) from error
    assert isinstance(parsed, int)
    return parsed


MEMORY_OF_JOBS: Final = 512 << 20
"""The default for jobs, whose queries can spill nearly all of their data."""

memory_option = click.option(
    "--memory", metavar="SIZE", callback=_memory,
    help="Memory that DuckDB may use before work goes to disk, into a folder in TMPDIR, like 2GiB. "
    "Default: 2 GiB for questions and 512 MiB for jobs, or a third of the machine if that is less. "
    "Decoding takes about 200 MiB besides.",
)  # fmt: skip
