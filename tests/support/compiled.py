"""Whether the build under test is compiled, and the mark of tests that only sources can pass."""

from typing import Final

import pytest

from daybook.engine.state import apply

IS_COMPILED: Final = not str(apply.__file__).endswith(".py")

replaces_parts = pytest.mark.skipif(
    IS_COMPILED,
    reason="replaces constants, functions or methods, which compiled code has built in",
)
