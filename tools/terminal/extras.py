"""The error for a missing package that belongs to one of Daybook's extras."""

from importlib.util import find_spec
from typing import Final

from daybook.journal.extras import install_command
from daybook.tools.terminal.failures import Failure

EXTRA: Final = {
    "duckdb": "sql", "pyarrow": "sql", "sqlglot": "sql", "matplotlib": "plots",
    "prompt_toolkit": "sql", "pygments": "sql", "pyspark": "spark", "deltalake": "delta",
    "starlette": "console", "uvicorn": "console", "jinja2": "console",
}  # fmt: skip
"""The extra of Daybook that installs a package."""


def why_missing(extra: str) -> str:
    """Return what to do for an extra that is not installed, "" for one that is."""
    packages = [package for package, of in EXTRA.items() if of == extra]
    missing = next((each for each in packages if find_spec(each) is None), "")
    return f"this needs {missing}; install it with: {install_command(extra)}" if missing else ""


def needs_extra(error: ImportError, *, on_spark: bool = False) -> Failure:
    """Return the error for a missing package; raises the import error again if it is another
    package.

    If Spark was asked for, it names the extra of Spark, which installs everything that a job needs.
    """
    package = (error.name or "").partition(".")[0]
    extra = EXTRA.get(package)
    if extra is None:
        raise error
    if on_spark and extra == "sql":
        extra = "spark"
    return Failure(f"this needs {package}; install it with: {install_command(extra)}")
