"""The help of all commands of both programs: whole sentences."""

from collections.abc import Iterator

import click
import pytest

from daybook.tools import daybook, journal_cli

WIDTH = 80


def groups(command: click.Command, path: str) -> Iterator[tuple[str, click.Group]]:
    """Yield a group and all groups in it, each with what is typed for it."""
    if isinstance(command, click.Group):
        yield path, command
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from groups(inner, f"{path} {name}")


GROUPS = [*groups(daybook.cli, "daybook"), *groups(journal_cli.cli, "journal")]


def test_there_are_groups_in_groups() -> None:
    assert {path for path, _ in GROUPS} >= {"daybook", "journal", "daybook queue", "daybook drill"}


@pytest.mark.parametrize(("path", "group"), GROUPS, ids=[path for path, _ in GROUPS])
def test_summaries_are_whole_sentences(path: str, group: click.Group) -> None:
    context = click.Context(group, info_name=path, terminal_width=WIDTH)
    text = group.get_help(context)
    assert all(len(line) <= WIDTH for line in text.splitlines())
    words = " ".join(text.partition("Commands:")[2].split())
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        summary = " ".join((command.help or "").partition("\n\n")[0].split())
        said = summary.split(". ")[0].rstrip(".")
        assert said
        assert f"{name} {said}" in words
    assert "..." not in words
