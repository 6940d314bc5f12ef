"""docs/monitoring.md, the alerts and the dashboard name the metrics that there are."""

import json
import re
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from daybook.server.monitoring.figures import FAMILIES
from daybook.server.monitoring.health import KINDS, RUNBOOK, Problem
from tests.meta import tree
from tests.meta.docs.pages import slug
from tests.meta.drawn import metrics_page

ALERTS = tree.ROOT / "etc" / "prometheus-alerts.yaml"
DASHBOARD = tree.ROOT / "etc" / "grafana-dashboard.json"
NAME = re.compile(r"\bdaybook_[a-z_]+\b")
LABELS = re.compile(r"(?:by|without) \(([a-z, ]+)\)|\$labels\.([a-z]+)|\{\{([a-z]+)\}\}")
OF_PROMETHEUS = {"instance", "le"}


def series() -> set[str]:
    """The names of everything that Prometheus gets."""
    names = set()
    for family in FAMILIES:
        if family.kind == "histogram":
            names |= {f"{family.name}_{part}" for part in ("bucket", "sum", "count")}
        else:
            names.add(family.name)
    return names


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def targets() -> list[tuple[str, str]]:
    """The expressions of the dashboard and their legends."""
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    return [
        (target["expr"], target["legendFormat"]) for panel in panels for target in panel["targets"]
    ]


def labels_of(expression: str) -> set[str]:
    named = set(NAME.findall(expression))
    found = [family.labels for family in FAMILIES if named & {family.name, f"{family.name}_bucket"}]
    return {label for labels in found for label in labels} | OF_PROMETHEUS


def labels_in(text: str) -> set[str]:
    return {
        label.strip()
        for parts in LABELS.findall(text)
        for part in parts
        for label in part.split(",")
        if label.strip()
    }


def test_the_page_is_what_the_table_of_figures_gives() -> None:
    assert metrics_page.PART.is_current(), "run `make map`"


def test_every_metric_of_the_dashboard_and_its_labels_exist() -> None:
    assert len(targets()) > 20
    for expression, legend in targets():
        assert NAME.findall(expression), expression
        assert set(NAME.findall(expression)) <= series(), expression
        assert labels_in(expression + legend) <= labels_of(expression), expression


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_every_metric_of_an_alert_and_its_labels_exist(rule: dict[str, Any]) -> None:
    expression = rule["expr"]
    assert set(NAME.findall(expression)) <= series(), expression
    assert NAME.findall(expression) or expression.startswith("up{")
    told = expression + "".join(rule["annotations"].values())
    assert labels_in(told) <= labels_of(expression)


def test_the_page_has_the_reason_of_every_alert() -> None:
    page = metrics_page.PART.page.read_text("utf-8")
    told = re.findall(r"^\| `(Daybook\w+)` \|", page, re.MULTILINE)
    assert told == [rule["alert"] for rule in alerts()]


def test_the_names_follow_the_conventions() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    for family in FAMILIES:
        assert re.fullmatch(r"daybook(_[a-z]+)+", family.name)
        assert (family.kind == "counter") == family.name.endswith("_total"), family.name
        assert family.help.endswith(".")
        assert "_ms" not in family.name


def test_each_kind_of_problem_has_its_section() -> None:
    for page, section in RUNBOOK.values():
        headings = re.findall(
            r"^#+ (.+)$", (tree.ROOT / "docs" / f"{page}.md").read_text("utf-8"), re.MULTILINE
        )
        assert section in headings, (page, section)


@pytest.mark.parametrize("kind", KINDS)
def test_a_problem_links_to_its_section_on_a_site(kind: str) -> None:
    page, section = RUNBOOK[kind]
    problem = Problem(0, "x", kind)
    expected = f"https://docs.example/daybook/docs/{page}.html#{slug(section)}"
    for site in ("https://docs.example/daybook", "https://docs.example/daybook/"):
        assert problem.runbook_on(site) == expected
    assert problem.runbook_on("") == Problem(0, "x").runbook_on(site) == ""
