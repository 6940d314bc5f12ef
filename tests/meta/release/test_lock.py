"""requirements.lock has all that pyproject.toml asks for, with hashes, and names no machine."""

import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import product

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement

from release import installation, lockfile
from release.lockfile import Locked
from tests.meta import tree

LOCK = lockfile.read()
SETS = lockfile.sets(tree.project())
ENVIRONMENTS = [
    {
        "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix",
        "platform_machine": machine, "implementation_name": "cpython",
        "platform_python_implementation": "CPython", "python_version": f"3.{minor}",
        "python_full_version": f"3.{minor}.0", "extra": "",
    }
    for minor, machine in product((11, 12, 13), ("x86_64", "aarch64"))
]  # fmt: skip


def pinned(name: str, environment: dict[str, str], lock: list[Locked] = LOCK) -> list[Locked]:
    return [
        pin
        for pin in lock
        if pin.name == name and (not pin.marker or Marker(pin.marker).evaluate(environment))
    ]


def unsatisfied(lock: list[Locked], requirements: Sequence[str]) -> list[str]:
    """Requirements for which a lock has not exactly one version, within bounds, everywhere."""
    found = []
    for line in requirements:
        wanted = Requirement(line)
        for environment in ENVIRONMENTS:
            pins = pinned(lockfile.normal(wanted.name), environment, lock)
            if len(pins) != 1 or not wanted.specifier.contains(pins[0].version):
                found.append(line)
                break
    return found


@pytest.mark.parametrize("name", sorted(SETS))
def test_the_lock_satisfies_each_extra_and_each_group(name: str) -> None:
    assert SETS[name]
    assert not unsatisfied(LOCK, SETS[name])


def test_the_build_system_is_locked() -> None:
    assert not unsatisfied(LOCK, tree.project()["build-system"]["requires"])


def test_no_extra_has_the_name_of_a_group() -> None:
    project = tree.project()
    extras = project["project"]["optional-dependencies"]
    assert lockfile.BROKER not in extras.keys() | project["dependency-groups"].keys()
    assert not extras.keys() & project["dependency-groups"].keys()


@pytest.mark.parametrize("name", ["click", "atheris"])
def test_a_requirement_that_the_lock_does_not_satisfy_is_found(name: str) -> None:
    (line,) = {one for each in SETS.values() for one in each if lockfile.name_of(one) == name}
    without = [pin for pin in LOCK if pin.name != name]
    assert unsatisfied(without, [line]) == [line]
    old = [pin._replace(version="0.0.1") if pin.name == name else pin for pin in LOCK]
    assert unsatisfied(old, [line]) == [line]
    twice = [*LOCK, *(pin for pin in LOCK if pin.name == name)]
    assert unsatisfied(twice, [line]) == [line]
    partly = [pin._replace(marker="python_version < '3.13'") for pin in LOCK if pin.name == name]
    assert unsatisfied(partly, [line]) == [line]


def test_every_version_has_hashes_and_a_reason() -> None:
    assert not [pin.name for pin in LOCK if not pin.hashes or not pin.required_by]


def test_the_lock_names_no_registry_and_no_path_of_this_machine() -> None:
    text = lockfile.LOCK.read_text("utf-8")
    assert not re.findall(
        r"^.*(?:://|--index|--find-links|--extra|(?<![\w.])/\w).*$", text, re.MULTILINE
    )


def test_each_part_has_what_its_packages_require() -> None:
    """The metadata of the installed packages, against the graph in the lock's comments."""
    for name, requirements in SETS.items():
        part = lockfile.part(LOCK, [lockfile.name_of(line) for line in requirements])
        names = {pin.name for pin in part}
        for pin in part:
            try:
                wanted = requires(pin.name) if version(pin.name) == pin.version else None
            except PackageNotFoundError:  # only the release or Windows needs it
                continue
            for line in wanted or ():
                needed = Requirement(line)
                if not needed.marker or any(map(needed.marker.evaluate, ENVIRONMENTS)):
                    assert lockfile.normal(needed.name) in names, f"{name}: {pin.name} needs {line}"


def test_a_part_has_no_more_than_that() -> None:
    broker = {pin.name for pin in lockfile.part(LOCK, map(lockfile.name_of, SETS["broker"]))}
    assert broker < {pin.name for pin in LOCK}
    assert not broker & {"duckdb", "mypy", "pyspark", "pytest"}
    assert "pyarrow" in {
        pin.name for pin in lockfile.part(LOCK, map(lockfile.name_of, SETS["sql"]))
    }


def test_a_part_is_written_as_it_was_read() -> None:
    again = lockfile.parse(lockfile.written(LOCK))
    assert again == [pin._replace(required_by=()) for pin in LOCK]


def test_what_is_no_lock_is_refused() -> None:
    with pytest.raises(lockfile.Malformed, match="line 2 is not part of a lock: click>=8"):
        lockfile.parse("# a comment\nclick>=8\n")


class Registry:
    """Stands in for pip: answers in turn, and keeps what it was asked."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        self.answers = list(answers)
        self.asked: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str]) -> tuple[int, str]:
        self.asked.append(command)
        return self.answers.pop(0)


def test_an_unknown_set_is_named() -> None:
    with pytest.raises(SystemExit, match=r"no extra and no group 'nonsense'; there are broker, "):
        lockfile.requirements_of(["nonsense"])


def test_the_version_of_pip_is_what_the_lock_has() -> None:
    assert installation.NEWER_PIP in SETS["build"]
    assert not unsatisfied(LOCK, [installation.NEWER_PIP])
    assert Requirement(installation.NEWER_PIP).specifier.contains(
        ".".join(map(str, installation.PIP_MIN))
    )


GONE = (1, "ERROR: No matching distribution found for click==8.5.1")
FORGED = (1, "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.")


def test_a_version_that_is_gone_is_replaced_and_that_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    registry = Registry(GONE, (0, ""))
    assert installation.install(SETS["broker"], "preferred", registry) == 0
    assert "--require-hashes" in registry.asked[0]
    assert "--require-hashes" not in registry.asked[1]
    assert set(SETS["broker"]) <= set(registry.asked[1])
    assert "requirements.lock has an unavailable version" in capsys.readouterr().err


def test_a_release_takes_no_other_version() -> None:
    assert installation.install(SETS["broker"], "required", Registry(GONE)) == 1


@pytest.mark.parametrize("failure", [FORGED, (1, f"{GONE[1]}\n{FORGED[1]}"), (1, "disk full")])
def test_no_other_failure_is_passed_over(failure: tuple[int, str]) -> None:
    assert installation.install(SETS["broker"], "preferred", Registry(failure)) == 1


def test_the_lock_can_be_ignored() -> None:
    registry = Registry((0, ""))
    assert installation.install(SETS["build"], "ignored", registry) == 0
    assert registry.asked == [[*installation.PIP, *SETS["build"]]]
