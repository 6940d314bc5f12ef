"""`daybook pipeline`: the jobs of the pipeline as commands.

Each is imported when it is called: what they need (Arrow, DuckDB, Spark) is an extra that not every
installation has, and takes longer to import than other commands run.
"""

from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from daybook.journal.extras import install_command
from daybook.pipeline.selection import SelectionError
from daybook.tools.failures import Failure

JOBS: Final = {
    "archive": "Turn sealed segments into Parquet files that keep their proof.",
    "audit": "Account for every message: prove that nothing was lost, doubled or invented.",
    "trail": "Show all that happened to messages: thousands at once, with their families.",
    "latency": "Show how long messages take, where they come back, and who is slow.",
    "replay": "Send messages of history to a broker again, each exactly once.",
}
"""Name of each job, whose command is `command` in the module `tools.job_NAME`, and its help.

`_command` imports it.
"""

EXTRA: Final = {
    "duckdb": "sql", "pyarrow": "sql", "sqlglot": "sql", "matplotlib": "plots",
    "prompt_toolkit": "sql", "pygments": "sql", "pyspark": "spark", "deltalake": "delta",
}  # fmt: skip
"""The extra of Daybook that brings a package."""


_ON_SPARK: Final = "daybook.tools.pipeline.on_spark"


def needs_extra(error: ImportError, *, on_spark: bool = False) -> Failure:
    """What to say when a package is missing; raises the error again if it is none of ours.

    Where Spark was asked for, it names the extra of Spark, which brings everything a job needs.
    """
    package = (error.name or "").partition(".")[0]
    extra = EXTRA.get(package)
    if extra is None:
        raise error
    if on_spark and extra == "sql":
        extra = "spark"
    return Failure(f"this needs {package}; install it with: {install_command(extra)}")


def _command(name: str) -> click.Command:
    """The command of a job. Written out, so that tools that read imports see the use."""
    if name == "archive":
        from daybook.tools.jobs.archive import command  # noqa: PLC0415
    elif name == "audit":
        from daybook.tools.jobs.audit import command  # noqa: PLC0415
    elif name == "latency":
        from daybook.tools.jobs.latency import command  # noqa: PLC0415
    elif name == "replay":
        from daybook.tools.jobs.replay import command  # noqa: PLC0415
    else:
        assert name == "trail", f"job {name} is listed and not imported"
        from daybook.tools.jobs.trail import command  # noqa: PLC0415
    return command


class Jobs(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(JOBS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Note whether Spark is asked for: a job that cannot be imported cannot say so."""
        words = list(zip(args, [*args[1:], ""], strict=True))
        ctx.meta[_ON_SPARK] = ("--engine", "spark") in words or "--engine=spark" in args
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in JOBS:
            return None
        try:
            return _command(cmd_name)
        except ImportError as error:
            raise needs_extra(error, on_spark=ctx.meta.get(_ON_SPARK, False)) from error

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of jobs without importing them."""
        jobs = [
            CompletionItem(name, help=text)
            for name, text in sorted(JOBS.items())
            if name.startswith(incomplete)
        ]
        return jobs + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the jobs without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(JOBS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ImportError as error:
            raise needs_extra(error, on_spark=ctx.meta.get(_ON_SPARK, False)) from error
        except SelectionError as error:
            raise click.UsageError(str(error)) from error


@click.group("pipeline", cls=Jobs)
def pipeline_group() -> None:
    """Jobs over history: live, archived, and in Parquet.

    They run in this process (DuckDB), or on Spark with --engine spark, and give the same rows.
    """
