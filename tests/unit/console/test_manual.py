"""The documentation as pages of text, by its sections."""

import pytest

from daybook.console.pages import manual
from daybook.console.pages.manual import documents, sections_of
from daybook.server.monitoring.health import RUNBOOK, anchor_of


def test_headings_begin_sections_but_not_in_code() -> None:
    text = "# Top\n\nOne.\n\n```sh\n# a comment\n```\n### When it `hangs`, or not\nTwo.\n"
    first, second = sections_of(text)
    assert (first.level, first.heading, first.anchor) == (1, "Top", "top")
    assert first.text == "One.\n\n```sh\n# a comment\n```"
    assert (second.level, second.anchor) == (3, "when-it-hangs-or-not")
    assert second.text == "Two."
    assert [each.text for each in sections_of("Before.\n# Top")] == ["Before.", ""]


def test_each_runbook_is_a_section_of_a_page() -> None:
    for page, section in RUNBOOK.values():
        anchors = [each.anchor for each in sections_of(documents()[page].read_text("utf-8"))]
        assert anchors.count(anchor_of(section)) == 1, (page, section)


def test_an_installation_may_lack_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manual, "FOLDERS", ())
    assert manual.documents.__wrapped__() == {}
