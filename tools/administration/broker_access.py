"""Reaching a broker from the command line: by its data directory, or over the network.

`broker_option` gives a command --data, --url, --token-file and --ca-file, and --virtual-host, on
which the names of a request then are; `reach` asks the broker that they name. Must never know the
content of requests.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from daybook.client.control import ControlError, ask
from daybook.engine.names.names import DIVIDER, qualified, wrong_with_host
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.paths import DATA_DEFAULT, DIRECTORY, PathThatIsNamed

if TYPE_CHECKING:
    from daybook.client.remote import Remote

URL_VARIABLE: Final = "DAYBOOK_CONTROL_URL"
"""The variable of the environment that names a broker elsewhere."""

_META: Final = "daybook.tools.administration.broker_access"
_FILE: Final = PathThatIsNamed(dir_okay=False, path_type=Path)

data_option = click.option(
    "--data", envvar="DAYBOOK_DATA", type=DIRECTORY, default=DATA_DEFAULT,
    show_default=True, metavar="DIR", help="Data directory of the broker; also $DAYBOOK_DATA.",
)  # fmt: skip


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    ctx.meta[f"{_META}.{param.name}"] = value
    return value


_NETWORK: Final = (
    click.option(
        "--url", envvar=URL_VARIABLE, expose_value=False, callback=_keep,
        metavar="URL",
        help="Ask a broker elsewhere instead: control://HOST:PORT, controls:// for TLS; also"
        f" ${URL_VARIABLE}.",
    ),
    click.option(
        "--token-file", envvar="DAYBOOK_TOKEN_FILE", type=_FILE, expose_value=False,
        callback=_keep, help="File with the token for --url; also $DAYBOOK_TOKEN_FILE.",
    ),
    click.option(
        "--ca-file", envvar="DAYBOOK_CA_FILE", type=_FILE, expose_value=False, callback=_keep,
        help="Certificates to trust with controls://; the default is those of the system.",
    ),
)  # fmt: skip


def _host(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    wrong = wrong_with_host(value) if value is not None else None
    if wrong is not None:
        raise click.BadParameter(f"{value!r} is not a valid name of a virtual host: {wrong}")
    ctx.meta[f"{_META}.virtual_host"] = value
    return value


_HOST: Final = click.option(
    "--virtual-host", expose_value=False, callback=_host, metavar="HOST",
    help="Names are those on this virtual host; without it, on the default one.",
)  # fmt: skip
NAMES_IN_REQUESTS: Final = ("queue", "address", "target", "divert")
NAMES_IN_DEFINITIONS: Final = ("name", "address")


def virtual_host() -> str | None:
    """Return the virtual host that the command names, None if it names none."""
    ctx = click.get_current_context(silent=True)
    return ctx.meta.get(f"{_META}.virtual_host") if ctx is not None else None


def full_name(name: str) -> str:
    """Return the full name of an object from its name in a command."""
    host = virtual_host()
    return qualified(host, name) if host is not None and name else name


def with_full_names(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request with the full names of its objects."""
    host = virtual_host()
    if host is None:
        return request
    found: dict[str, Any] = {
        key: full_name(value) if key in NAMES_IN_REQUESTS and isinstance(value, str) else value
        for key, value in request.items()
    }
    if "match" in found:
        # Also for the default host: a match without a host is for all of them.
        found["match"] = f"{host}{DIVIDER}{found['match']}"
    if "definition" in found:
        definition = dict(found["definition"])
        for key in NAMES_IN_DEFINITIONS:
            if definition.get(key):
                definition[key] = full_name(definition[key])
        if "forwarding_addresses" in definition:
            targets = definition["forwarding_addresses"]
            definition["forwarding_addresses"] = [full_name(each) for each in targets]
        found["definition"] = definition
    return found


def broker_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name a broker."""
    for option in reversed(_NETWORK):
        command = option(command)
    return data_option(_HOST(command))


def reach(data: Path, request: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer of the broker that the options name, None if none runs on the directory."""
    request = with_full_names(request)
    try:
        remote = _remote()
        if remote is None:
            return ask(data, request)
        # TLS is slow to import.
        from daybook.client.remote import ask_remote  # noqa: PLC0415

        return ask_remote(remote, request)
    except ControlError as error:
        raise Failure(str(error)) from error


def is_elsewhere() -> bool:
    """Whether the options name a broker elsewhere."""
    ctx = click.get_current_context()
    is_said = ctx.get_parameter_source("data") is click.core.ParameterSource.COMMANDLINE
    return bool(ctx.meta.get(f"{_META}.url")) and not is_said


def _remote() -> "Remote | None":
    """Return the broker of --url, None without that option. Raises ControlError."""
    ctx = click.get_current_context(silent=True)
    url = ctx.meta.get(f"{_META}.url") if ctx is not None else None
    if ctx is None or not url:
        return None
    line = click.core.ParameterSource.COMMANDLINE
    is_said = ctx.get_parameter_source("url") is line
    if ctx.get_parameter_source("data") is line:
        # The options of the command override the environment.
        if is_said:
            raise click.UsageError("--url and --data name two brokers; leave one out", ctx)
        return None
    from daybook.client.remote import remote  # noqa: PLC0415

    return remote(url, ctx.meta.get(f"{_META}.token_file"), ctx.meta.get(f"{_META}.ca_file"))
