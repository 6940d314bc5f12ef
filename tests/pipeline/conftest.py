"""What the tests of the pipeline share: one Spark for all of them, and none without Java.

Tests that ask for `spark` or `java` are marked `spark`; under pytest-xdist with
`--dist loadgroup` one worker gets them all, so that one JVM is started.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_JAVA = "no Java: Spark tests are skipped; install a JRE 17"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if not {"java", "spark"}.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.spark)
            if config.pluginmanager.hasplugin("xdist"):
                item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def java() -> str:
    """Name of the Java that Spark will find."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if found is None:
        pytest.skip(NO_JAVA)
    return found


@pytest.fixture(scope="session")
def spark(java: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A session on this machine with two threads; each test loads anew what it asks."""
    from pipeline.session import session  # noqa: PLC0415

    settings = {
        # A compiler that thinks less is done sooner with what runs once.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.shuffle.partitions": "2",
    }
    started = session("local[2]", "daybook-tests", settings)
    yield started
    started.stop()
