"""Figures as Prometheus reads them, whatever names are in them."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from daybook.protocols.probe.exposition import (
    FRESH_US,
    OPEN_METRICS,
    TEXT,
    Exposition,
    content_type,
)
from tests.unit.protocols.probe.streams import NOW, FakeSight

Parser = Callable[[str], Iterable[Any]]
PARSERS: list[tuple[str, Parser]] = [
    (TEXT, text_string_to_metric_families),
    (OPEN_METRICS, openmetrics.text_string_to_metric_families),
]


def text_of(monitoring: FakeSight, form: str) -> str:
    exposition = Exposition(monitoring, 10)
    while (text := exposition.text(form, NOW)) is None:
        pass
    return text.decode()


@pytest.mark.parametrize(("form", "parse"), PARSERS)
def test_families_are_told_once_with_all_of_their_values(form: str, parse: Parser) -> None:
    families = {family.name: family for family in parse(text_of(FakeSight(), form))}
    assert list(families) == ["daybook_a", "daybook_b", "daybook_c_seconds"]
    assert [family.type for family in families.values()] == ["gauge", "counter", "histogram"]
    assert [sample.labels["queue"] for sample in families["daybook_a"].samples] == ["q", "r"]
    assert families["daybook_b"].samples[0].name == "daybook_b_total"
    buckets = {
        sample.labels["le"]: sample.value
        for sample in families["daybook_c_seconds"].samples
        if sample.name.endswith("_bucket")
    }
    assert buckets == {"0.1": 1, "+Inf": 2}
    assert {
        sample.name: sample.value
        for sample in families["daybook_c_seconds"].samples
        if not sample.labels
    } == {"daybook_c_seconds_count": 2, "daybook_c_seconds_sum": 5.5}


names = st.text(max_size=20) | st.sampled_from(['a"b', "a\nb", "a\\", "\\n", "é€😀", "", "# EOF\n"])


@given(
    names.filter(
        lambda name: (
            (name.isprintable() or name in ("a\nb", "# EOF\n")) and name not in ("plain", "r")
        )
    )
)
def test_any_name_is_read_back(name: str) -> None:
    for form, parse in PARSERS:
        monitoring = FakeSight()
        monitoring.values = [((name,), 1.5), (("plain",), math.inf)]
        first = next(iter(parse(text_of(monitoring, form))))
        assert first.samples[0].labels == {"queue": name}
        assert [sample.value for sample in first.samples] == [1.5, math.inf, 2.0]


def test_the_format_follows_what_is_accepted() -> None:
    prometheus = (
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
        "text/plain;version=0.0.4;q=0.4,*/*;q=0.1"
    )
    assert content_type(prometheus) == OPEN_METRICS
    assert content_type("text/plain") == content_type("") == content_type("*/*") == TEXT


def test_a_text_is_fresh_for_a_second_and_one_that_was_left_is_begun_anew() -> None:
    monitoring = FakeSight()
    exposition = Exposition(monitoring, 10)
    while exposition.text(TEXT, NOW) is None:
        pass
    assert exposition.text(TEXT, NOW + FRESH_US - 1) is not None
    assert monitoring.renderings == 1
    assert exposition.text(TEXT, NOW + FRESH_US) is None
    # Nobody asks for the rest of it.
    monitoring.values = [(("later",), 1.0)]
    while (text := exposition.text(TEXT, NOW + 5 * FRESH_US)) is None:
        pass
    assert b"later" in text
    assert monitoring.renderings == 3
    # The clock was set back.
    assert exposition.text(TEXT, NOW) is None
