"""One run of libFuzzer, which ends its process: `python -m tests.fuzz.guided.worker TARGET ...`.

The arguments behind the target are those of libFuzzer. `search` runs it.
"""

import importlib
import os
import sys
from random import Random
from typing import Final

import atheris  # type: ignore[import-not-found]

MEASURED: Final = (
    "daybook.protocols.amqp", "daybook.protocols.stomp", "daybook.engine", "daybook.server.hub.hub",
    "daybook.server.hub.peer", "daybook.server.hub.turns", "daybook.server.hub.outbox",
    "daybook.server.hub.blocked",
)  # fmt: skip
"""The modules in which coverage is measured."""

with atheris.instrument_imports(include=list(MEASURED), enable_loader_override=False):
    target = importlib.import_module(f"tests.fuzz.guided.{sys.argv[1]}")
    from tests.fuzz.guided.plants import PLANTS

if plant := os.environ.get("DAYBOOK_FUZZ_PLANT"):
    PLANTS[plant].plant(setattr)


def judge(case: bytes) -> None:
    """Play a case; a mistake raises an exception."""
    problem = target.check(case)
    if problem:
        raise AssertionError(problem)


def mutate(case: bytes, most: int, seed: int) -> bytes:
    """Change a case by the grammar, now and then as bytes."""
    chance = Random(seed)
    if chance.random() < 0.1:
        return bytes(atheris.Mutate(case, most))
    return bytes(target.mutated(case, chance)[:most])


def cross(one: bytes, other: bytes, most: int, seed: int) -> bytes:
    """The beginning of a case and the end of another."""
    chance = Random(seed)
    return target.crossed(one, other, chance)[:most]


if __name__ == "__main__":
    arguments = [sys.argv[0], *sys.argv[2:]]
    atheris.Setup(arguments, judge, custom_mutator=mutate, custom_crossover=cross)
    atheris.Fuzz()
