"""Known vulnerabilities fail the audit; a service that cannot be reached does not."""

import json
from collections.abc import Sequence

import pytest

from release import lockfile, vulnerabilities

CLEAN = [{"name": "click", "version": "8.5.1", "vulns": []}]
UNKNOWN = [{"name": "click", "skip_reason": "Dependency not found"}]
FOUND = {"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["9.0"]}
VULNERABLE = [*CLEAN, {"name": "flask", "version": "3.0", "vulns": [FOUND]}]


class Services:
    """Stands in for pip-audit: answers by service."""

    def __init__(self, **reports: object) -> None:
        self.reports = reports
        self.asked: list[str] = []

    def __call__(self, command: Sequence[str]) -> tuple[str, str]:
        (service,) = [each.partition("=")[2] for each in command if "-service=" in each]
        self.asked.append(service)
        report = self.reports[service]
        return (
            ("", report) if isinstance(report, str) else (json.dumps({"dependencies": report}), "")
        )


def test_a_vulnerability_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert vulnerabilities.main(Services(pypi=VULNERABLE)) == 1
    assert (
        "flask 3.0: PYSEC-1, fixed in: 9.0\n2 packages audited, 1 known" in capsys.readouterr().out
    )


def test_none_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert vulnerabilities.main(Services(pypi=[*CLEAN, {"name": "x", "skip_reason": ""}])) == 0
    assert "not known to the service: x\n1 packages audited, 0 known" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["PYSEC-1", "CVE-1"])
def test_what_was_accepted_is_no_finding(name: str) -> None:
    report = json.dumps({"dependencies": VULNERABLE})
    assert vulnerabilities.read(report, [name]).findings == []
    assert len(vulnerabilities.read(report, ["CVE-2"]).findings) == 1


def test_the_next_service_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    services = Services(pypi=UNKNOWN, osv=VULNERABLE)
    assert vulnerabilities.main(services) == 1
    assert list(dict.fromkeys(services.asked)) == ["pypi", "osv"]
    assert "no answer from the vulnerability service pypi" in capsys.readouterr().out


def test_without_the_network_it_says_that_nothing_was_audited(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert vulnerabilities.main(Services(pypi=UNKNOWN, osv="ConnectionError: no route")) == 0
    assert "the dependencies were NOT audited" in capsys.readouterr().out


def test_a_tool_that_fails_is_no_missing_network(capsys: pytest.CaptureFixture[str]) -> None:
    assert vulnerabilities.main(Services(pypi="error: unrecognized arguments")) == 2
    assert "pip-audit failed: error: unrecognized" in capsys.readouterr().err


def test_every_locked_version_is_asked_about() -> None:
    lock = lockfile.read()
    layers = vulnerabilities.layers(lock)
    assert sorted((pin.name, pin.version) for each in layers for pin in each) == sorted(
        (pin.name, pin.version) for pin in lock
    )
    for each in layers:
        assert len({pin.name for pin in each}) == len(each)
        assert not [pin for pin in each if pin.marker]
