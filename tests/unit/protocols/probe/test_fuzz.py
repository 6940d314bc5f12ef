"""The fuzzer of the probe, over a few fixed seeds: it works, and these seeds are fine."""

import pytest

from daybook.protocols.probe.session import Session
from tests.fuzz import probe


@pytest.mark.parametrize("seed", range(100))
def test_seed(seed: int) -> None:
    assert probe.check(seed) == ""


def test_it_notices_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Session, data: bytes, now: int) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(Session, "receive", broken)
    assert "planted" in probe.check(1)
