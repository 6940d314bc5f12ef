"""The tables of planted mistakes in docs/verification.md, drawn from the tests that plant them.

`make map` (python -m tests.meta.drawn.verification_page) redraws them; a test compares. A row is
a mistake out of a list that a test is parametrized by, or a test that plants one mistake by itself,
so a mistake that is planted is on the page, and one on the page is planted.
"""

import ast
import re
from collections.abc import Iterable
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple

from tests.meta import tree
from tests.meta.drawn.drawn_part import Drawn
from tests.meta.drawn.events_page import table

PAGE = tree.ROOT / "docs" / "verification.md"
LEAST: Final = 5
"""How many mistakes each check must find, at least."""


class Listed(NamedTuple):
    """Mistakes of a list, all planted by one test."""

    test: str
    mistakes: Iterable[str]


class Alone(NamedTuple):
    """Tests of a module that each plant one mistake: those whose names match."""

    module: str
    names: str


def _sentence(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")


def _said(planter: object) -> str:
    """The first sentence of what a planter says of itself, or its name."""
    words = (getattr(planter, "__doc__", None) or "").strip().partition("\n")[0]
    return words.rstrip(".") or _sentence(getattr(planter, "__name__", ""))


LISTS: Final[set[tuple[str, str]]] = set()
"""The lists of mistakes that the tables have, by module and name."""
NAMES_OF_LISTS: Final = re.compile("PLANT(S|ERS|ED.*)|MUTATIONS|BREACHES")
"""The names that tests give to lists of planted mistakes."""


def _list(module: str, name: str) -> Any:
    """A list of mistakes. Modules that reach into the product are not checked for types."""
    LISTS.add((f"tests/{module.replace('.', '/')}.py", name))
    return getattr(import_module(f"tests.{module}"), name)


SIMULATION = "tests/simulation/test_mutations.py"
AMQP = "tests/simulation/test_amqp_mutations.py"
SECTIONS: Final[dict[str, tuple[Listed | Alone, ...]]] = {
    "verify": (
        Alone("tests/unit/journal/segments/test_verify.py", "found|reported|named|refused|hide"),
        Alone("tests/unit/history/verification/test_verify_plans.py",
              "wrong|damage|another|worker"),
        Alone("tests/unit/paging/snapshots/test_derived_files.py",
              "removes|counts_more|derived|older"),
        Alone("tests/simulation/test_damage.py", "flipped"),
    ),
    "audit": (
        Listed("tests/unit/history/audit/test_audit.py::test_a_planted_breach_is_found_and_proven",
               map(_said, _list("support.forging.breaches", "BREACHES"))),
        Listed("tests/property/history/test_audit_mutations.py::test_a_mistake_of_the_engine_is_found",
               (row[0] for row in _list("property.history.test_audit_mutations", "MUTATIONS"))),
        Listed("tests/unit/history/audit/test_audit.py::test_a_planted_fault_breaks_a_rule",
               map(_said, _list("support.forging.faults", "PLANTERS"))),
    ),
    "signatures": (
        Alone("tests/unit/history/verification/test_signature_proof.py",
              "found|foreign|refused|flipped|links_nothing"),
        Alone("tests/unit/tools/test_exporting.py", "_not_|no_|found|proves_nothing"),
        Alone("tests/unit/tools/test_export_addresses.py", "found"),
        Alone("tests/unit/history/exports/test_export_keys.py",
              "must_be|forged|_not_|compared|nowhere"),
    ),
    "drills": (
        Listed("tests/unit/tools/drills/test_crash_points.py::test_a_planted_mistake_is_found",
               (row[0] for row in _list("unit.tools.drills.test_crash_points", "PLANTS"))),
        Listed("tests/crash/test_drills.py::test_a_planted_mistake_is_found",
               (f"{kind}: {_sentence(name.replace('-', '_'))}"
                for kind, name, _ in _list("crash.test_drills", "PLANTS"))),
        Listed("tests/crash/standbys/test_failover_drill.py::"
               "test_a_planted_mistake_of_a_cluster_is_found",
               (_sentence(name.replace("-", "_"))
                for name in _list("crash.standbys.test_failover_drill", "PLANTED"))),
        Alone("tests/unit/tools/drills/test_bit_rot_and_restore.py", "is_found"),
    ),
    "simulation": (
        Listed(f"{SIMULATION}::test_planted_mistake_is_found",
               _list("simulation.test_mutations", "PLANTED")),
        Listed(f"{SIMULATION}::test_planted_mistake_among_ids_is_found",
               _list("simulation.test_mutations", "PLANTED_AMONG_IDS")),
        Listed(f"{SIMULATION}::test_planted_mistake_in_a_round_of_retention_is_found",
               map(_said, _list("simulation.test_mutations", "ROUNDS"))),
        Alone(SIMULATION, "(believed|any_queue)_is_found"),
        Listed(f"{AMQP}::test_planted_mistake_in_amqp_is_found",
               map(_said, _list("simulation.test_amqp_mutations", "PLANTED_IN_AMQP"))),
        Listed(f"{AMQP}::test_planted_mistake_in_coming_again_is_found",
               map(_said, _list("simulation.test_amqp_mutations", "PLANTED_IN_RETURNING"))),
        Listed("tests/simulation/test_direct.py::test_planted_mistake_is_found",
               map(_said, _list("simulation.test_direct", "PLANTED"))),
        Listed("tests/simulation/several/test_several.py::test_planted_mistake_is_found",
               map(_said, _list("simulation.several.test_several", "PLANTED"))),
    ),
    "fuzzing": (
        Listed("tests/fuzz/guided/test_corpus.py::test_a_planted_mistake_is_noticed",
               (plant.what for plant in _list("fuzz.guided.plants", "PLANTS").values())),
    ),
    "soak": (Alone("tests/soak/test_soak.py", "sees|noticed"),),
}  # fmt: skip
"""The checks, by the name of their table, with what is planted for them."""


def functions_of(module: str) -> list[str]:
    """The names of the tests of a module, in its order."""
    parsed = tree.parsed(tree.ROOT / module)
    return [
        node.name
        for node in parsed.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def lists_of(module: str) -> set[tuple[str, str]]:
    """The lists of mistakes that a module defines."""
    parsed = tree.parsed(tree.ROOT / module)
    targets = [
        target
        for node in parsed.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return {(module, name) for name in names if NAMES_OF_LISTS.fullmatch(name)}


def rows(check: str) -> list[tuple[str, str]]:
    """A mistake that is planted for a check, and the test."""
    found = []
    for source in SECTIONS[check]:
        if isinstance(source, Listed):
            found += [(mistake, source.test) for mistake in source.mistakes]
        else:
            found += [
                (_sentence(name), f"{source.module}::{name}")
                for name in functions_of(source.module)
                if re.search(source.names, name)
            ]
    return found


def _cell(test: str) -> str:
    module, _, name = test.partition("::")
    return f"[`{name}`](../{module})"


def draw(check: str) -> str:
    """The table of a check."""
    cells = [(mistake, _cell(test)) for mistake, test in ROWS[check]]
    return "\n".join(["", *table(("planted", "by the test"), cells), ""])


ROWS: Final = {check: rows(check) for check in SECTIONS}


PARTS: Final = {check: Drawn(PAGE, check, partial(draw, check)) for check in SECTIONS}

if __name__ == "__main__":
    for part in PARTS.values():
        part.redraw()
