"""The simulated clock: it stands still until the simulator moves it. Microseconds since 1970."""

START_US = 1_700_000_000_000_000
US_PER_MS = 1_000


class Clock:
    """Time as the broker sees it; call it to read it."""

    def __init__(self) -> None:
        self.now = START_US

    def __call__(self) -> int:
        return self.now

    def advance(self, microseconds: int) -> None:
        """Let time pass; it never goes back."""
        assert microseconds >= 0
        self.now += microseconds
