"""Asks whether locked versions have known vulnerabilities, with pip-audit.

    python -m release.vulnerabilities    # exit code 1: there are some

The answer needs a service on the network. If none can be reached, or if it knows none of the
packages, that is reported, and the exit code is 0: a missing answer is not a finding. A package
that a service does not know is named, too. Any other failure of pip-audit is a failure (exit code
2). Vulnerabilities that do not concern Daybook are listed in pyproject.toml with the reason:

    [tool.daybook.accepted-vulnerabilities]
    "GHSA-xxxx" = "why it does no harm here"
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from release import lockfile
from release.lockfile import Locked

SERVICES: Final = ("pypi", "osv")
Runner = Callable[[Sequence[str]], tuple[str, str]]


UNREACHABLE: Final = re.compile(
    r"ConnectionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError|NameResolutionError"
    r"|Could not connect to|Tips: your network may be blocking this service"
)
"""The output of pip-audit when it did not reach the service."""


class Failed(Exception):
    """pip-audit did not work, and the network is not the reason."""


class Answer(NamedTuple):
    """The answer of a service about the packages."""

    audited: list[str]
    unknown: list[str]
    findings: list[str]


def layers(locked: Iterable[Locked]) -> list[list[Locked]]:
    """Return pins without markers, in lists that have each package once."""
    found: list[list[Locked]] = []
    for pin in locked:
        plain = pin._replace(marker="")
        free = next((each for each in found if all(one.name != pin.name for one in each)), None)
        if free is None:
            found.append(free := [])
        free.append(plain)
    return found


def read(report: str, accepted: Iterable[str]) -> Answer:
    """Parse a report of pip-audit; raise ValueError if it is not one."""
    audited, unknown, findings = [], [], []
    packages: list[dict[str, Any]] = json.loads(report)["dependencies"]
    for each in packages:
        if "skip_reason" in each:
            unknown.append(each["name"])
            continue
        audited.append(each["name"])
        for one in each["vulns"]:
            if {one["id"], *one.get("aliases", ())} & set(accepted):
                continue
            fixed = ", ".join(one["fix_versions"]) or "none yet"
            findings.append(f"{each['name']} {each['version']}: {one['id']}, fixed in: {fixed}")
    return Answer(sorted(set(audited)), sorted(set(unknown)), sorted(set(findings)))


def run(command: Sequence[str]) -> tuple[str, str]:
    """Run a command; return its output and its errors."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout, done.stderr


def ask(service: str, accepted: Iterable[str], runner: Runner = run) -> Answer | str:
    """Ask a service about everything in the lock; return the answer, or why there is none."""
    command = [
        sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip", "--format=json",
        "--desc=off", "--aliases=on", "--progress-spinner=off",
        f"--vulnerability-service={service}",
    ]  # fmt: skip
    answers = []
    for pins in layers(lockfile.read()):  # pip-audit takes each package once
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "requirements.txt")
            path.write_text(lockfile.written(pins), "utf-8")
            report, errors = runner([*command, f"--requirement={path}"])
        try:
            answers.append(read(report, accepted))
        except ValueError:
            if not UNREACHABLE.search(errors):
                raise Failed(errors) from None
            return errors.strip().rpartition("\n")[2]
    answer = Answer(
        *(sorted(set(chain.from_iterable(part))) for part in zip(*answers, strict=True))
    )
    return answer if answer.audited else "it knows none of the packages"


def judged(answer: Answer) -> int:
    """Print the findings; return the exit code."""
    for finding in answer.findings:
        print(finding)
    if answer.unknown:
        print(f"not known to the service: {', '.join(answer.unknown)}")
    print(f"{len(answer.audited)} packages audited, {len(answer.findings)} known vulnerabilities")
    return 1 if answer.findings else 0


def main(runner: Runner = run) -> int:
    """Ask one service after the other until one answers; return the exit code."""
    tool = lockfile.project()["tool"].get("daybook", {})
    accepted = tool.get("accepted-vulnerabilities", {})
    for service in SERVICES:
        try:
            answer = ask(service, accepted, runner)
        except Failed as error:
            print(f"pip-audit failed: {error}", file=sys.stderr)
            return 2
        if isinstance(answer, Answer):
            return judged(answer)
        print(f"no answer from the vulnerability service {service}: {answer}")
    print("the dependencies were NOT audited: no vulnerability service can be reached from here")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
