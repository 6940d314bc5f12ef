"""The command `console`: the broker in a browser (ADR 112)."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from daybook.tools.administration.broker_access import data_option
from daybook.tools.terminal.extras import needs_extra
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.paths import PathThatIsNamed

if TYPE_CHECKING:
    from daybook.console.console import Console

_FILE: Final = PathThatIsNamed(dir_okay=False, path_type=Path)


@click.command()
@data_option
@click.option(
    "--config", "config_file", type=_FILE, metavar="FILE",
    help="A file with [[broker]] for each of several brokers (docs/console.md), instead of --data.",
)  # fmt: skip
@click.option(
    "--broker", default="", metavar="NAME",
    help="What the broker of --data is called in the console. Default: like its folder.",
)  # fmt: skip
@click.option(
    "--listen", metavar="http://HOST:PORT",
    help="Listen here; https:// needs --certificate and --private-key. Default:"
    " http://127.0.0.1:8162.",
)  # fmt: skip
@click.option("--certificate", type=_FILE, metavar="FILE", help="Certificate for https://, in PEM.")
@click.option("--private-key", type=_FILE, metavar="FILE", help="Its private key, in PEM.")
@click.option(
    "--name", "names", multiple=True, metavar="HOST",
    help="A further name by which browsers may ask for the console, such as that of a proxy in"
    " front; may be repeated.",
)  # fmt: skip
@click.option(
    "--docs", default="", metavar="URL",
    help="Where a site with the documentation is, as `make docs` builds it: problems link to their"
    " section there.",
)  # fmt: skip
@click.option(
    "--archive", default="", metavar="URL",
    help="The archive with which checks of the page Integrity may begin: a directory, or a URL like"
    " s3://bucket/path.",
)  # fmt: skip
@click.option(
    "--public-key", "public_keys", type=_FILE, multiple=True, metavar="FILE",
    help="A key by which the page Integrity can prove history; may be repeated.",
)  # fmt: skip
@click.option(
    "--anchor", "anchors", type=_FILE, multiple=True, metavar="FILE",
    help="A file of anchors by which it can prove history; may be repeated.",
)  # fmt: skip
@click.option(
    "--link/--no-link", default=None,
    help="Print a link that logs you in as the operator, once, within ten minutes. Default: if the"
    " output is a terminal.",
)  # fmt: skip
@click.option("--with-broker", is_flag=True, hidden=True, help="End with the standard input.")
@click.pass_context
def console(
    ctx: click.Context, data: Path, config_file: Path | None, broker: str,
    listen: str | None, certificate: Path | None, private_key: Path | None,
    names: tuple[str, ...], docs: str, archive: str, public_keys: tuple[Path, ...],
    anchors: tuple[Path, ...], link: bool | None, with_broker: bool,
) -> None:  # fmt: skip
    """Show the broker, its queues and its past in a browser.

    Runs beside the broker, in the foreground, until SIGTERM or Ctrl-C. Users log in as they do at
    the broker, and may see and do what they may there.
    """
    from daybook.console.console_config import (  # noqa: PLC0415
        ConsoleError,
        Proofs,
        from_file,
        of_directory,
    )

    try:
        from daybook.console.serving import serve, stand_back  # noqa: PLC0415
    except ImportError as error:
        raise needs_extra(error) from error

    if config_file is not None and ctx.get_parameter_source("data") is (
        click.core.ParameterSource.COMMANDLINE
    ):
        raise click.UsageError("--config and --data both name brokers; leave one out")
    if config_file is not None and (broker or archive or public_keys or anchors):
        raise click.UsageError(
            "--broker, --archive, --public-key and --anchor are for --data; in the file of --config"
            " each [[broker]] has its own"
        )
    says_link = sys.stdout.isatty() if link is None else link

    def ready(url: str, running: "Console") -> None:
        click.echo(f"ready {url}")
        if says_link and any(each.directory for each in running.brokers.values()):
            click.echo(f"log in as the operator: {url}/enter/{running.sessions.new_link()}")
        sys.stdout.flush()

    try:
        if config_file is not None:
            config = from_file(config_file, listen)
        else:
            proofs = Proofs(archive, public_keys, anchors)
            config = of_directory(
                data, listen, certificate, private_key, names, docs, proofs, broker
            )
        if with_broker:
            stand_back()
        serve(config, ready, ends_with=sys.stdin.fileno() if with_broker else None)
    except ConsoleError as error:
        raise Failure(str(error)) from error
