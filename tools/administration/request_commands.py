"""The commands of `daybook` that the table of administration describes, and the code that all
others share.

`add_commands` gives a group a command for each way in which a request is sent
(`server.administration.admin_requests`). `look` asks the running broker, else the journal, and
reports that on standard error; `demand` and `change` need the broker. Must never know a single
request.
"""

import inspect
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin

import click
import msgspec
from msgspec.structs import replace

from daybook.engine.facts.definitions import NUMBER_MOST, Attribute
from daybook.engine.names.names import host_and_name
from daybook.engine.refusals import Refusal
from daybook.server.administration.admin_requests import REQUESTS
from daybook.server.administration.request_rows import (
    Argument,
    Attributes,
    Option,
    Reading,
    Request,
    Table,
    ViewSource,
    Way,
)
from daybook.server.administration.units import NAMING, cell, heading
from daybook.server.administration.ways import (
    done,
    every_way,
    is_many,
    lone,
    marks_of,
    passed_over,
    way_of,
)
from daybook.server.process.slices import at_once
from daybook.tools.administration.broker_access import (
    broker_option,
    is_elsewhere,
    reach,
    virtual_host,
    with_full_names,
)
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.moments import MOMENT, Moment
from daybook.tools.terminal.numbers import NUMBER
from daybook.tools.terminal.printing import show_json, show_json_pretty, show_table

if TYPE_CHECKING:
    from daybook.engine.state.state import State

_MOMENT: Final = "daybook.tools.administration.request_commands.moment"
json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print for programs.")
if_missing_option: Final = click.option(
    "--if-missing", is_flag=True, help="Succeed if the same exists already."
)


def _keep_moment(ctx: click.Context, param: click.Parameter, value: Moment | None) -> None:
    ctx.meta[_MOMENT] = value


at_option: Final = click.option(
    "--at", type=MOMENT, expose_value=False, callback=_keep_moment, metavar="MOMENT",
    help="Show what was at this moment, an LSN or a time, from the journal instead of the broker.",
)  # fmt: skip


def asked_moment() -> Moment | None:
    """Return the moment that the command names, None if it is about now."""
    ctx = click.get_current_context(silent=True)
    found: Moment | None = ctx.meta.get(_MOMENT) if ctx is not None else None
    return found


class Looking:
    """Asks the running broker of a directory, else the state that its journal folds to; the latter
    also for a moment that the command names."""

    def __init__(self, data: Path) -> None:
        self._data: Final = data
        self._folded: tuple[State, int] | None = None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request that reads."""
        is_past = asked_moment() is not None
        answer = reach(self._data, request) if self._folded is None and not is_past else None
        if answer is not None:
            return answer
        state, lsn = self._folded = self._folded or self._fold()
        reading = msgspec.convert(with_full_names(request), REQUESTS[request["do"]])
        assert isinstance(reading, Reading)
        found = reading.look(ViewSource(state))
        result = at_once(found) if isinstance(found, Generator) else found
        if isinstance(result, Refusal):
            raise Failure(result.text)
        return {"running": False, "lsn": lsn} | result

    def _fold(self) -> "tuple[State, int]":
        moment = asked_moment()
        if moment is not None:
            return self._past(moment)
        # Slow to import, and not needed where a broker runs.
        from daybook.recovery.readonly import newest_state, opened  # noqa: PLC0415

        opened(self._data)
        state, lsn = click.get_current_context().with_resource(newest_state(self._data))
        why = _about_standby(self._data) or "broker is not running"
        click.echo(f"{why}; state at LSN {lsn}", err=True)
        return state, lsn

    def _past(self, moment: Moment) -> "tuple[State, int]":
        # Slow to import, and not needed for what is now.
        from daybook.journal.pins import Pin  # noqa: PLC0415
        from daybook.recovery.readonly import journal_disk  # noqa: PLC0415
        from daybook.tools.history.past_states import found, opened  # noqa: PLC0415

        ctx = click.get_current_context()
        if is_elsewhere():
            raise click.UsageError("--at reads the journal of --data; leave out --url", ctx)
        ctx.with_resource(Pin(self._data))
        disk = journal_disk(self._data)
        at = found(self._data, disk, moment)
        return ctx.with_resource(opened(self._data, disk, at.lsn)), at.lsn


def look(data: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Ask the running broker, else the journal."""
    return Looking(data).ask(request)


def _about_standby(data: Path) -> str:
    # Slow to import.
    from daybook.client.standing_by import about_standby  # noqa: PLC0415

    return about_standby(data)


def demand(data: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Send a request that only a running broker can carry out, and return its answer."""
    answer = reach(data, request)
    if answer is None:
        if standby := _about_standby(data):
            raise Failure(f"no broker runs on {data}: {standby}. Ask the node that leads")
        why = (
            ", so there are no connections"
            if REQUESTS[request["do"]].is_about_clients
            else ", and only a running one can change anything"
        )
        raise Failure(
            f"no broker runs on {data}{why}; start it with "
            f"`daybook serve --data {data}`, or name another with --data"
        )
    return answer


def change(data: Path, way: Way, as_json: bool, **request: Any) -> None:
    """Ask the running broker for a change, and print a line about it."""
    answer = demand(data, request)
    if as_json:
        show_json(answer)
        return
    if way.nothing and not answer["closed"]:
        raise Failure(way.nothing)
    click.echo(done(way, request, answer))
    for text in passed_over(answer):
        click.echo(text, err=True)


def on_host(rows: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Return the rows of the virtual host that the command names, all if it names none; `key` is
    where a row has a full name. If there are none, prints a note."""
    host = virtual_host()
    if key == "host":
        return [row for row in rows if host in (None, row["host"])]
    found = [row for row in rows if host in (None, host_and_name(row[key])[0])]
    if rows and not found:
        click.echo(f"none on virtual host '{host}'; other virtual hosts have some", err=True)
    return found


def show_rows(
    columns: tuple[str, ...],
    rows: list[dict[str, Any]],
    optional: tuple[str, ...] = (),
    *,
    as_json: bool = False,
) -> None:
    """Show rows as a table with these columns, or all of them as JSON.

    A narrow terminal may omit `optional` columns.
    """
    if as_json:
        show_json_pretty(rows)
        return
    columns += optional
    show_table(
        [heading(column) for column in columns],
        [[_cell(row[column], column) for column in columns] for row in rows],
        optional=[heading(column) for column in optional],
    )


def _cell(value: Any, column: str) -> Any:
    """Return a value of a column: numbers as they are, as the table sets them to the right."""
    is_number = isinstance(value, int | float) and column not in NAMING
    return value if is_number else cell(value, column)


def add_commands(group: click.Group) -> None:
    """Give a group the commands that the table describes for it, except those that are written."""
    for tag, row, way in every_way():
        of, _, name = way.command.partition(" ")
        if of == group.name and not way.written:
            group.add_command(_command(name, tag, row, way))


def command_of(name: str) -> click.Command:
    """Return a command that the table describes, and that belongs to no group."""
    found = way_of(name)
    assert found is not None, name
    return _command(name, *found)


def attribute_options(mark: Attributes) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the arguments and options from which a field is made."""
    options = [_parameter(field, str, each) for field, each in mark.more.items()]
    for each in mark.attributes:
        # Without a definition nothing is said of attributes that are not given.
        has_default = mark.definition is not None
        options.append(_attribute_option(each if has_default else replace(each, default=None)))

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _attribute_option(attribute: Attribute) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    name = f"--{attribute.key}"
    if attribute.kind is bool:
        return click.option(
            f"{name}/--not-{attribute.key}", default=attribute.default, show_default=True,
            help=attribute.doc,
        )  # fmt: skip
    if attribute.kind is tuple:
        return click.option(name, multiple=True, help=f"{attribute.doc} May be repeated.")
    kind: Any = attribute.kind
    if attribute.choices:
        kind = click.Choice(attribute.choices)
    elif attribute.kind is int:
        kind = click.IntRange(attribute.least, NUMBER_MOST)
    return click.option(
        name, type=kind, default=attribute.default, show_default=True, help=attribute.doc
    )


def help_of(row: type[Request], way: Way | None = None) -> str:
    """Return the help of a command that sends a request."""
    return inspect.cleandoc((way.doc if way is not None else "") or row.__doc__ or "")


def _command(name: str, tag: str, row: type[Request], way: Way) -> click.Command:
    """Return the command for one way in which a request is sent."""
    fields = msgspec.structs.fields(row)
    marks = marks_of(row, way)

    def run(data: Path, as_json: bool, **given: Any) -> None:
        if way.one_of and not any(given[field] for field in way.one_of):
            raise click.UsageError(way.missing)
        if way.either and all(given[field] for field in way.either):
            raise click.UsageError("--filter and --message exclude each other")
        request: dict[str, Any] = {"do": tag}
        for field in fields:
            if field.name in way.fixed:
                request[field.name] = way.fixed[field.name]
            elif field.name in marks:
                mark = marks[field.name][1]
                value = (
                    _filled(mark, way, given) if isinstance(mark, Attributes) else given[field.name]
                )
                request[field.name] = (
                    field.default if value in (None, ()) else _given(marks[field.name][0], value)
                )
        if way.table is not None:
            show_listed(way.table, rows_of(data, request, way.table), as_json=as_json)
        else:
            change(data, way, as_json, **request)

    command: Callable[..., Any] = broker_option(json_option(run))
    if issubclass(row, Reading) and not row.needs_broker:
        command = at_option(command)
    for field in reversed(fields):
        if field.name in marks:
            command = _parameter(field.name, *marks[field.name])(command)
    return click.command(name, help=help_of(row, way))(command)


def _given(kind: Any, value: Any) -> Any:
    return lone(kind, value) if isinstance(value, tuple) else value


def _filled(mark: Attributes, way: Way, given: dict[str, Any]) -> dict[str, Any]:
    """Return the field that a command makes from options for attributes."""
    said = {each.field: given[each.field] for each in mark.attributes}
    if mark.definition is not None:
        definition = mark.definition(**said, **{name: given[name] for name in mark.more})
        return dict(msgspec.to_builtins(definition))
    changes = {field: value for field, value in said.items() if value is not None}
    if not changes:
        raise click.UsageError(way.missing)
    return changes


def _parameter(
    field: str, kind: Any, mark: Argument | Option | Attributes
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the decorator that adds an argument or options to a command."""
    if isinstance(mark, Attributes):
        return attribute_options(mark)
    many = is_many(kind)
    each = (get_args(kind)[0] if get_origin(kind) is tuple else int) if many else kind
    if get_origin(kind) is dict:
        return click.argument(field, metavar=mark.metavar, nargs=-1, required=True, callback=_pairs)
    if isinstance(mark, Argument):
        parsed = click.IntRange(mark.least, mark.most) if kind is int else each
        count = -1 if many else 1
        return click.argument(field, type=parsed, metavar=mark.metavar, nargs=count)
    if kind is bool:
        return click.option(mark.flag, field, is_flag=True, help=mark.doc)
    parsed = click.Choice(mark.choices) if mark.choices else NUMBER if each is int else str
    return click.option(
        mark.flag, field, type=parsed, multiple=many, required=mark.is_required,
        metavar=mark.metavar, help=mark.doc,
    )  # fmt: skip


def _pairs(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    found = {}
    for each in values:
        key, sign, value = each.partition("=")
        if not sign:
            raise click.UsageError(f"'{each}' is not KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def rows_of(
    data: Path, request: dict[str, Any], table: Table, looking: Looking | None = None
) -> list[dict[str, Any]]:
    """Return all rows that the broker lists, page by page; `looking` has the state of a past moment
    already, if the command asked about that before."""
    row = REQUESTS[request["do"]]
    about_clients = row.is_about_clients
    is_paged = any(field.name == "offset" for field in msgspec.structs.fields(row))
    looking = looking or Looking(data)
    rows: list[dict[str, Any]] = []
    after: dict[str, Any] = {}
    offset: int | None = 0
    while offset is not None:
        asked = request | {"offset": offset} | after if is_paged else request
        is_live = about_clients and asked_moment() is None
        page = demand(data, asked) if is_live else looking.ask(asked)
        rows += page[table.key]
        offset = page.get("next_offset")
        # A broker of an earlier version has no cursors, and knows of none.
        after = {"cursor": page["cursor"]} if page.get("cursor") else {}
    return on_host(rows, table.named_by) if table.named_by else rows


def show_listed(table: Table, rows: list[dict[str, Any]], *, as_json: bool) -> None:
    """Show the rows of a list, for people in the shape that is for them."""
    if table.shape is not None and not as_json:
        rows = [table.shape(row) for row in rows]
    show_rows(table.columns, rows, table.more, as_json=as_json)
