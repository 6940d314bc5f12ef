"""The version of this release, as the distribution says."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final


def _version() -> str:
    try:
        return version("daybook-broker")
    except PackageNotFoundError:
        return "0+uninstalled"


VERSION: Final = _version()
