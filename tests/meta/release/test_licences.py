"""docs/licences.md lists every locked package, with the licence that it states."""

from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from license_expression import get_spdx_licensing  # type: ignore[import-untyped]

from release import licences, lockfile

LOCK = lockfile.read()
ROWS = licences.listed()
# A distributor of the broker with its packages has to know of these.
COPYLEFT = {"crc32c": "LGPL-2.1-or-later"}


def test_every_locked_version_is_listed() -> None:
    pins = [pin for pin in LOCK if licences.on_linux(pin)]
    listed = {(row.package, one) for row in ROWS for one in row.versions.split(", ")}
    assert listed == {(pin.name, pin.version) for pin in pins}


def test_the_sets_that_need_a_package_are_right() -> None:
    needed = licences.needed_by(LOCK)
    assert {row.package: row.needed_by for row in ROWS} == {
        row.package: needed[row.package] for row in ROWS
    }
    assert needed["click"] == "broker"
    assert needed["pyspark"] == "spark"
    assert "test" in needed["pytest"]


def test_installed_packages_state_what_is_listed() -> None:
    """Packages of groups that tests do not install are compared when the page is drawn."""
    listed = {row.package: row for row in ROWS}
    compared = 0
    for each in distributions():
        row = listed.get(lockfile.normal(each.metadata["Name"]))
        if row and each.version in row.versions.split(", "):
            assert licences.said(each) == row.licence, row.package
            compared += 1
    assert compared > 50


def test_every_licence_has_a_name_of_spdx() -> None:
    spdx = get_spdx_licensing()
    assert not [row for row in ROWS if spdx.validate(row.licence).errors]
    assert spdx.validate("Nonsense-1.0").errors


def test_copyleft_among_what_is_shipped_is_known() -> None:
    groups = lockfile.project()["dependency-groups"]
    shipped = [row for row in ROWS if not set(row.needed_by.split(", ")) & groups.keys()]
    found = {row.package: row.licence for row in shipped if "GPL" in row.licence}
    assert found == COPYLEFT
    page = licences.PAGE.read_text("utf-8")
    assert all(f"{name} is under the {licence}" in page for name, licence in COPYLEFT.items())


def test_a_package_without_a_licence_stops_the_drawing() -> None:
    known = {row.package: row.licence for row in ROWS}
    assert licences.rows(LOCK, known) == ROWS
    with pytest.raises(SystemExit, match="without a licence: click, pytest"):
        licences.rows(LOCK, known | {"click": "", "pytest": ""})


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ("License-Expression: MIT OR Apache-2.0\nLicense: other", "MIT OR Apache-2.0"),
        ("License: MIT\nClassifier: License :: OSI Approved", "MIT"),
        ("License: Apache 2.0", "Apache-2.0"),
        ("Classifier: License :: OSI Approved :: MIT License", "MIT"),
        (
            f"License: {'text of it ' * 9}\nClassifier: License :: OSI Approved :: MIT License",
            "MIT",
        ),
        ("Summary: nothing is said", ""),
    ],
)
def test_what_metadata_says(metadata: str, licence: str, tmp_path: Path) -> None:
    folder = tmp_path / "x-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: x\nVersion: 1\n{metadata}\n")
    assert licences.said(Distribution.at(folder)) == licence
