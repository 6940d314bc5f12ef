"""Spark sessions with Daybook's data sources and the settings that they need.

The JVM's standard error goes to the file in the environment variable DAYBOOK_SPARK_LOG, if set, and
is discarded otherwise: errors are raised as exceptions anyway. Must never know the queries.
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
    # Times are UTC in the journal and in queries.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Pushed filters give wrong answers (ADR 14).
    "spark.sql.python.filterPushdown.enabled": "false",
}
ON_THIS_MACHINE: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    # Spark's default of 200 is for a cluster.
    "spark.sql.shuffle.partitions": "8",
    # Otherwise Spark creates a folder in the working directory.
    "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / f"daybook-spark-{os.getuid()}"),
}


class SparkError(JournalError):
    """Spark cannot be used, or refused a query; the text says why."""


def session(
    master: str = "", app_name: str = APP_NAME, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a session with Daybook's sources; the existing one of this process, if any.

    `master` is a URL of Spark; the default is that of spark-submit, else this machine. `settings`
    are settings of Spark, which override those made here. Raises SparkError.
    """
    # Otherwise Spark starts the first python3 of PATH, which may lack our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Otherwise its workers import modules from the working directory.
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
    """Register the sources in an existing session, with the settings that they need."""
    for name, value in ALWAYS.items():
        spark.conf.set(name, value)
    for source in (JournalSource, DaybookSink):
        spark.dataSource.register(source)


def _quieten() -> None:
    """Silence the Python side of Spark: it logs stack traces of errors that it also raises."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    # Py4J logs with the root logger.
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def _start(builder: Any) -> SparkSession:
    """Start the JVM, if this process has none yet, with its standard error redirected."""
    if shutil.which("java", path=_java_path()) is None:
        raise SparkError(
            "Spark needs Java 17 or newer, and none was found: install a JRE, or set JAVA_HOME; "
            "the embedded engine needs no Java"
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
    """Return the last exception in the log of a JVM that ended; "" if there is none."""
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
    """Redirect standard error to a file, also for processes that are started meanwhile."""
    sys.stderr.flush()
    before = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
