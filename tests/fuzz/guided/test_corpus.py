"""The corpus of the fuzzers: every law holds for each case, and planted mistakes are seen."""

import importlib
import random

import pytest

from daybook.protocols.stomp.wire.states import CLIENT_COMMANDS
from tests.fuzz.guided import amqp, corpus, frames, links, sessions
from tests.fuzz.guided.conversation import cut
from tests.fuzz.guided.dictionary import header_names, words
from tests.fuzz.guided.plants import PLANTS
from tests.fuzz.guided.search import TARGETS
from tests.fuzz.guided.story import decoded
from tests.support.suite.chance import seed_of


@pytest.mark.parametrize("name", TARGETS)
def test_every_case_of_the_corpus_is_fine(name: str) -> None:
    target = importlib.import_module(f"tests.fuzz.guided.{name}")
    found = [target.shown(case) for case in corpus.cases(target) if target.check(case)]
    assert found == []


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_mistake_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = importlib.import_module(f"tests.fuzz.guided.{PLANTS[name].target}")
    case = corpus.planted(name)
    assert target.check(case) == ""
    PLANTS[name].plant(monkeypatch.setattr)
    assert target.check(case) != ""


@pytest.mark.parametrize("target", [frames, sessions, amqp, links], ids=lambda target: target.NAME)
def test_any_bytes_are_a_case(target: object) -> None:
    for case in (b"", b"\0", b"\xff" * 40, bytes(range(256))):
        assert target.check(case) == ""  # type: ignore[attr-defined]


def test_ten_thousand_changed_inputs_break_no_law_of_amqp() -> None:
    chance = random.Random(seed_of("changed inputs of AMQP"))
    cases = corpus.cases(amqp)
    for _ in range(10_000):
        case = amqp.mutated(chance.choice(cases), chance)
        assert amqp.check(case) == "", amqp.shown(case)


def test_ten_thousand_frames_break_no_law_of_links() -> None:
    chance = random.Random(seed_of("changed stories of AMQP"))
    cases = corpus.cases(links)
    frames = 0
    while frames < 10_000:
        case = links.mutated(chance.choice(cases), chance)
        assert links.check(case) == "", links.shown(case)
        frames += sum(len(cut(step.data)) for step in decoded(case))


def test_the_dictionary_knows_what_the_code_knows() -> None:
    assert {b"destination", b"credit", b"browser", b"from-seq"} <= set(header_names())
    assert {name.encode() for name in CLIENT_COMMANDS} <= set(words())
    assert b"x-max-length" in words()
