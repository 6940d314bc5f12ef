"""The command `daybook config`: checking configuration files, and converting those of Artemis."""

from pathlib import Path

import click

from daybook.tools.failures import Commands
from daybook.tools.paths import PathThatIsNamed

file_argument = click.argument(
    "file", type=PathThatIsNamed(dir_okay=False, path_type=Path), metavar="FILE"
)


@click.group(cls=Commands)
def config() -> None:
    """Check configuration files, and convert those of Artemis."""


@config.command("check")
@file_argument
def config_check(file: Path) -> None:
    """Check a broker.toml, or a broker.xml of Artemis, without starting a broker.

    Everything that is wrong is printed with its line, and the exit code is 2. Certificates and keys
    are read too. Elements that Daybook
    does not support are warnings on standard error.
    """
    from daybook.server.config import ConfigError, load  # noqa: PLC0415 (slow to import)
    from daybook.server.layers.certificates import TlsError, check  # noqa: PLC0415

    found = load(file)
    try:
        check(found)
    except TlsError as error:
        raise ConfigError([f"{file}: {error}"]) from None
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)
    counts = {
        "acceptors": len(found.acceptors),
        "addresses": len(found.addresses),
        "queues": len(found.queues),
        "diverts": len(found.diverts),
        "address settings": len(found.address_settings),
    }
    listed = ", ".join(f"{count} {what}" for what, count in counts.items())
    noted = f" ({len(found.warnings)} warnings)" if found.warnings else ""
    click.echo(f"{file}: valid{noted}: {listed}")


@config.command("convert")
@file_argument
def config_convert(file: Path) -> None:
    """Print the broker.toml that means what a broker.xml of Artemis, or an apollo.xml, means.

    Elements that Daybook does not support are warnings on standard error, and comments at the top.
    """
    from daybook.server.broker_xml import read_broker_xml  # noqa: PLC0415 (slow to import)
    from daybook.server.config import ConfigError, load  # noqa: PLC0415 (slow to import)
    from daybook.server.config_text import as_toml  # noqa: PLC0415 (slow to import)

    load(file)
    problems: list[str] = []
    warnings: list[str] = []
    source = read_broker_xml(file, problems, warnings)
    if problems:
        raise ConfigError(problems)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(as_toml(source, file.name, warnings), nl=False)
