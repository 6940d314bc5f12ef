"""Manual pages and completions of the commands, as files for an installation.

    python -m release.manuals FOLDER

The pages are made by click-man from the same texts as `--help`, one for each command. They have
the date of the version in CHANGELOG.md, not that of today: the same sources give the same bytes.
"""

import os
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class
from click_man.man import ManPage  # type: ignore[import-untyped]

from daybook.tools import daybook, journal_cli
from release import changelog, lockfile

PROGRAMS: Final[dict[str, click.Group]] = {"daybook": daybook.cli, "journal": journal_cli.cli}
COMPLETIONS: Final = {
    "bash": "bash-completion/completions/{}",
    "zsh": "zsh/site-functions/_{}",
    "fish": "fish/vendor_completions.d/{}.fish",
}
"""Where each shell looks for the completion of a program, below share/."""
LONG: Final = 300
"""A summary that is shorter is not cut."""


def contexts(context: click.Context) -> Iterator[click.Context]:
    """Yield the context of a command, and of all commands below it that are not hidden."""
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            inner = context.command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from contexts(click.Context(inner, info_name=name, parent=context))


def subcommands(context: click.Context) -> list[tuple[str, str]]:
    """Return the names and summaries of the commands of a group that are not hidden."""
    group = context.command
    if not isinstance(group, click.Group):
        return []
    found = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    return [
        (name, each.get_short_help_str(LONG)) for name, each in found if each and not each.hidden
    ]


def page(context: click.Context, version: str, date: str) -> str:
    """Return the manual page of a command."""
    command = context.command
    made = ManPage(context.command_path)
    made.version = version
    made.date = date
    made.short_help = command.get_short_help_str(LONG)
    made.description = cleandoc(command.help or "")
    made.synopsis = " ".join(command.collect_usage_pieces(context))
    made.options = [
        record
        for each in command.params
        if isinstance(each, click.Option) and (record := each.get_help_record(context))
    ]
    made.commands = subcommands(context)
    # click-man joins only the last two names of a command in what it refers to.
    return str(made).replace(
        f"\\fB{context.command_path}-", f"\\fB{context.command_path.replace(' ', '-')}-"
    )


def pages(version: str, date: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of the manual page of every command."""
    for program, command in PROGRAMS.items():
        found = list(contexts(click.Context(command, info_name=program)))
        for context in found:
            name = context.command_path.replace(" ", "-")
            yield f"{name}.1", page(context, version, date)


def completion(program: str, shell: str) -> str:
    """Return the script that completes a program in a shell."""
    made = get_completion_class(shell)
    assert made is not None, shell
    return made(PROGRAMS[program], {}, program, f"_{program.upper()}_COMPLETE").source()


def write(folder: Path) -> None:
    """Write all pages and completions below a folder, with the names that they have in share/."""
    version = lockfile.project()["project"]["version"]
    date = changelog.date_of(version) or "unreleased"
    files = {f"man/man1/{name}": text for name, text in pages(version, date)}
    for shell, place in COMPLETIONS.items():
        files |= {place.format(program): completion(program, shell) for program in PROGRAMS}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def main() -> None:
    """Write below the named folder. The width of a terminal must not matter."""
    os.environ["COLUMNS"] = "100"
    (folder,) = sys.argv[1:]
    write(Path(folder))


if __name__ == "__main__":
    main()
