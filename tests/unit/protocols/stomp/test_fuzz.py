"""The fuzzer of STOMP, over a few fixed seeds: it works, and these seeds are fine."""

import pytest

from daybook.protocols.stomp.session import Session
from tests.fuzz import stomp


@pytest.mark.parametrize("seed", range(150))
def test_seed(seed: int) -> None:
    assert stomp.check(seed) == ""


def test_it_notices_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Session, data: bytes, now: int) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(Session, "receive", broken)
    assert "planted" in stomp.check(1)
