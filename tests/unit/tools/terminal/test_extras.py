"""The advice about an extra that is not installed."""

import pytest

from daybook.tools.terminal import extras
from daybook.tools.terminal.extras import why_missing


def test_an_extra_that_is_there_needs_nothing() -> None:
    assert why_missing("console") == ""


def test_an_extra_that_is_missing_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRA, "a_package_that_nobody_has", "console")
    assert why_missing("console").startswith(
        "this needs a_package_that_nobody_has; install it with: "
    )
