"""The permissions of a configuration: the rules of [[security-setting]], checked.

Must never know users, nor the use of the rules.
"""

from collections.abc import Callable, Sequence
from typing import Any

from daybook.engine.names.syntax import Syntax
from daybook.engine.settings.permissions import PERMISSIONS, wrong_with_match, wrong_with_who
from daybook.server.config_keys.config_source import Block
from daybook.server.configuration.host_config import Problem, host_in

SecurityRules = dict[str, dict[str, tuple[str, ...]]]
"""By match, for each permission whom it is granted to."""


def rules_of(
    blocks: Sequence[Block],
    values: Callable[[Block], dict[str, Any]],
    syntax: Syntax,
    hosts: set[str],
    problem: Problem,
) -> tuple[SecurityRules, dict[str, SecurityRules]]:
    """Return the rules for all virtual hosts, and those for one each; `values` gives the values of
    a block by field, `problem` takes errors."""
    of_all: SecurityRules = {}
    of_hosts: dict[str, SecurityRules] = {}
    first: dict[tuple[str, str], str] = {}
    for block in blocks:
        row = values(block)
        match = str(row.pop("match"))
        host = host_in(block, row, "security-setting", hosts, problem)
        rules = of_hosts.setdefault(host, {}) if host else of_all
        where = block.values["match"].where if "match" in block.values else block.where
        if (host, match) in first:
            at = first[host, match]
            problem(where, f"security-setting.match {match!r} was used before, at {at}")
        first.setdefault((host, match), where)
        wrong = wrong_with_match(match, syntax) if "match" in block.values else None
        if wrong:
            problem(where, f"security-setting: {wrong}")
        rules[match] = {}
        for permission in PERMISSIONS:
            granted: tuple[str, ...] = row[permission.replace("-", "_")]
            for who in granted:
                wrong = wrong_with_who(who)
                if wrong:
                    place = block.values[permission].where
                    problem(place, f"security-setting.{permission}: {wrong}")
            if granted:
                rules[match][permission] = tuple(dict.fromkeys(granted))
    return of_all, of_hosts
