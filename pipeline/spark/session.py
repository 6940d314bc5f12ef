"""Spark sessions that know Daybook's sources, set up as these need it.

What the JVM writes to standard error goes into the file that the environment variable
DAYBOOK_SPARK_LOG names, else nowhere: what matters of it comes back as an exception. Must never
know what is asked.
"""

import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, cast

from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from daybook.journal.errors import JournalError
from daybook.pipeline.spark.datasource import JournalSource
from daybook.pipeline.spark.sink import DaybookSink

APP_NAME: Final = "daybook"
THIS_MACHINE: Final = "local[*]"
LOG_VARIABLE: Final = "DAYBOOK_SPARK_LOG"
SAFE_PATH: Final = "PYTHONSAFEPATH"

ALWAYS: Final = {
    # Times are UTC in the journal and in what people ask.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Pushed filters give wrong answers (ADR 14).
    "spark.sql.python.filterPushdown.enabled": "false",
}
ON_THIS_MACHINE: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    # Spark's 200 are for a cluster.
    "spark.sql.shuffle.partitions": "8",
    # Else it makes a folder wherever one happens to be.
    "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / f"daybook-spark-{os.getuid()}"),
}


class SparkError(JournalError):
    """Spark cannot be had, or refused what was asked; the text says why."""


def session(
    master: str = "", app_name: str = APP_NAME, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with Daybook's sources; the one that this process has, if it has one.

    `master` is a URL of Spark; without one it is what spark-submit says, else this machine.
    `settings` are Spark's, and count before those made here. Raises SparkError.
    """
    # Else Spark starts whatever python3 comes first, which need not have our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Else its workers import whatever has the name of a module where somebody happens to be.
    os.environ.setdefault(SAFE_PATH, "1")
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    conf = SparkConf()
    conf.set("spark.ui.showConsoleProgress", "false")
    conf.set(f"spark.executorEnv.{SAFE_PATH}", os.environ[SAFE_PATH])
    if not submitted or master:
        conf.setMaster(master or THIS_MACHINE)
    if not submitted and (master or THIS_MACHINE).startswith("local"):
        conf.setAll(list(ON_THIS_MACHINE.items()))
    conf.setAll(list((settings or {}).items()))
    builder = SparkSession.builder.appName(app_name).config(conf=conf)
    _quieten()
    spark: SparkSession = builder.getOrCreate() if submitted else _start(builder)
    if LOG_VARIABLE not in os.environ:
        spark.sparkContext.setLogLevel("OFF")
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Make the sources known to a session that somebody else made, and set what they need."""
    for name, value in ALWAYS.items():
        spark.conf.set(name, value)
    for source in (JournalSource, DaybookSink):
        spark.dataSource.register(source)


def _quieten() -> None:
    """Have the Python side of Spark log nothing: it adds stack traces to what it raises anyway."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    # Py4J logs as if it were the program itself.
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def _start(builder: Any) -> SparkSession:
    """Start the JVM, if this process has none yet, without what it says of itself."""
    if shutil.which("java", path=_java_path()) is None:
        raise SparkError(
            "Spark needs Java 17 or newer, and there is none: install a JRE, or have JAVA_HOME "
            "name one; the embedded engine needs none"
        )
    with _log() as log:
        try:
            with _standard_error_into(log):
                return cast(SparkSession, builder.getOrCreate())
        except (PySparkException, RuntimeError) as error:
            log.seek(0)
            said = why(log.read().decode("utf-8", "replace")) or str(error)
            raise SparkError(f"Spark does not start: {said}") from error


def why(log: str) -> str:
    """What a JVM that ended said of it last; empty if it said nothing of that kind."""
    found = re.findall(r"^\S.*?(?:Exception|Error): (.+)$", log, re.MULTILINE)
    return found[-1].strip() if found else ""


def _java_path() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin") if home else None


def _log() -> IO[bytes]:
    named = os.environ.get(LOG_VARIABLE)
    return Path(named).open("a+b") if named else tempfile.TemporaryFile()


@contextmanager
def _standard_error_into(log: IO[bytes]) -> Iterator[None]:
    """Have processes that are started meanwhile write their errors into a file."""
    sys.stderr.flush()
    before = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
