"""The questions of docs/forensics.md can be asked of a history of any length."""

from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import incident, questions
from bench.questions import BEGIN, EVENTS, LENGTH, Span, fitted


def test_moments_stay_where_the_history_has_them() -> None:
    whole = Span(BEGIN, BEGIN + LENGTH, EVENTS)
    command = "journal diff shop 2023-11-15T01:00 2023-11-15T02:00"
    assert fitted(command, whole) == command
    assert fitted("journal trail shop --header order=2499748", whole).endswith("order=2499748")


def test_moments_are_at_the_same_parts_of_a_shorter_history() -> None:
    tenth = Span(BEGIN, BEGIN + LENGTH / 10, EVENTS // 10)
    assert fitted("journal diff shop 2023-11-15T01:13 '2023-11-15 02:13'", tenth) == (
        "journal diff shop 2023-11-14T22:31:18.000 '2023-11-14 22:37:18.000'"
    )
    assert fitted("journal trail shop --header order=2499748", tenth).endswith("order=249974")


def test_the_parts_of_the_page_are_in_order_in_a_history_of_minutes() -> None:
    minutes = Span(BEGIN, BEGIN + timedelta(minutes=3), 500_000)
    for _, command in questions.questions():
        said = fitted(command, minutes)
        assert "2023-11-15" not in said
        times = [each for each in said.split() if "2023-11-14T" in each]
        assert times == sorted(times)


def test_questions_have_answers_on_a_young_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with each command; all of them take long."""
    by_command = {command[:16]: (question, command) for question, command in questions.questions()}
    monkeypatch.setattr(questions, "questions", lambda: list(by_command.values()))
    assert len(by_command) >= 5
    monkeypatch.setattr(incident, "TURN_MESSAGES", 20)
    shop = tmp_path / "shop"
    incident.make_incident(shop, 10_000)
    done = CliRunner().invoke(questions.main, [str(shop)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert done.output.count("\n| ") == len(questions.questions())
