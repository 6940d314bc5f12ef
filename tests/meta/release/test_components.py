"""The bill of materials is that of the lock, the same from the same sources, and valid."""

import json
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from release import components, licences, lockfile
from tests.meta import tree

PINS, REQUIRED = components.shipped(lockfile.read())
Bill = dict[str, Any]


@pytest.fixture(scope="module")
def text() -> str:
    return components.written(components.bill())


@pytest.fixture
def bill(text: str) -> Bill:
    found: Bill = json.loads(text)
    return found


def test_it_is_the_same_each_time_and_has_no_time(text: str, bill: Bill) -> None:
    assert components.written(components.bill()) == text
    assert "timestamp" not in bill["metadata"]


def test_it_has_every_shipped_package_with_its_hashes_and_its_licence(bill: Bill) -> None:
    listed = {(each["name"], each["version"]): each for each in bill["components"]}
    assert listed.keys() == {(pin.name, pin.version) for pin in PINS}
    known = {row.package: row.licence for row in licences.listed()}
    for pin in PINS:
        each = listed[pin.name, pin.version]
        hashes = {one["hashes"][0]["content"] for one in each["externalReferences"]}
        assert {f"sha256:{one}" for one in hashes} == set(pin.hashes)
        assert (each["scope"] == "required") == (pin.name in REQUIRED)
        assert known[pin.name] in json.dumps(each["licenses"])


def test_tools_for_tests_are_not_shipped(bill: Bill) -> None:
    names = {each["name"] for each in bill["components"]}
    assert {"click", "duckdb", "pyspark"} <= names
    assert not names & {"pytest", "mypy", "moto", "ruff", "uv"}
    assert names > REQUIRED


def test_it_says_what_requires_what(bill: Bill) -> None:
    graph = {each["ref"]: each.get("dependsOn", []) for each in bill["dependencies"]}
    project = tree.project()["project"]
    own = graph[f"pkg:pypi/{project['name']}@{project['version']}"]
    direct = {ref.removeprefix("pkg:pypi/").partition("@")[0] for ref in own}
    wanted = lockfile.requirements(["broker", "all"], tree.project())
    assert direct == {lockfile.name_of(line) for line in wanted}
    (cffi,) = [ref for ref in graph if ref.startswith("pkg:pypi/cffi@")]
    assert [ref for ref in graph if ref.startswith("pkg:pypi/cryptography@") and cffi in graph[ref]]


def test_it_names_no_registry(text: str, bill: Bill) -> None:
    assert "://" not in text.replace(bill["$schema"], "")


def test_it_is_valid(text: str, bill: Bill) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill["components"][0]["nonsense"] = 1
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill)) is not None
