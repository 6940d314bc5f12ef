"""Fixtures of the pipeline's tests: one Spark for all of them, and none without Java.

Tests that ask for `spark` or `java` are marked `spark`; under pytest-xdist one worker gets them
all, so that one JVM is started (`tests/conftest.py`).
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.suite.java import QUICK_TEXT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_JAVA = "no Java: Spark tests are skipped; install a JRE 17"
QUICK_JAVA = {"JAVA_TOOL_OPTIONS": QUICK_TEXT}
NEEDING_JAVA = {"java", "spark"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in filter(needs_java, items):
        item.add_marker(pytest.mark.spark)


def pytest_runtest_setup(item: pytest.Item) -> None:
    # Raised here and not by the fixture all skips have one place, and are told in one line.
    if needs_java(item) and java_found() is None:
        pytest.skip(NO_JAVA)


def needs_java(item: pytest.Item) -> bool:
    return not NEEDING_JAVA.isdisjoint(getattr(item, "fixturenames", ()))


def java_found() -> str | None:
    """The Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin") if home else None)


@pytest.fixture(scope="session")
def java() -> str:
    """The Java that Spark will start; without one the test is skipped."""
    found = java_found()
    assert found is not None
    return found


@pytest.fixture(scope="session")
def spark(java: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A session on this machine with two threads; each test loads its own tables."""
    from daybook.pipeline.spark.session import session  # noqa: PLC0415

    settings = {
        "spark.driver.extraJavaOptions": QUICK_TEXT,
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.shuffle.partitions": "2",
    }
    started = session("local[2]", "daybook-tests", settings)
    yield started
    started.stop()
