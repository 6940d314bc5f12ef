"""When the index advances: in its own time, unless something waits for it."""

from daybook.server.hub.index_pacing import EARLY_BYTES, PERIOD_US, REST, REST_MAX_US, Pace

MIB = 1 << 20
LIMIT = 32 * MIB
TICK = 100_000


class Scene:
    """A pace, a clock, and how much is unindexed."""

    def __init__(self) -> None:
        self.pace = Pace()
        self.now = TICK
        self.size = 0

    def until_due(self, *, growth: int = 0, is_awaited: bool = False) -> float:
        """Tick until a commit is due; return after how many seconds, and record the request."""
        begun = self.now
        while not self.pace.is_due(self.now, self.size, LIMIT, is_awaited=is_awaited):
            self.now += TICK
            self.size += growth
            assert self.now - begun < 60_000_000
        self.pace.requested()
        self.size = 0
        return (self.now - begun) / 1_000_000


def test_little_is_committed_once_in_a_period() -> None:
    scene = Scene()
    for _ in range(3):
        assert scene.until_due(growth=1000) == PERIOD_US / 1_000_000
        scene.pace.committed(scene.now, 0.003)


def test_much_is_committed_early_but_not_before_the_rest_is_over() -> None:
    scene = Scene()
    assert scene.until_due(growth=3 * MIB) == 0.2
    scene.pace.committed(scene.now, 0.025)
    assert scene.until_due(growth=MIB + 1) == 0.5 == REST * 0.025


def test_where_a_commit_takes_long_they_become_rare() -> None:
    scene = Scene()
    scene.until_due()
    scene.pace.committed(scene.now, 0.15)
    assert scene.until_due(growth=1000) == 3.0
    scene.pace.committed(scene.now, 60.0)
    assert scene.until_due(growth=1000) == REST_MAX_US / 1_000_000


def test_no_rest_lasts_until_senders_have_to_wait() -> None:
    scene = Scene()
    scene.until_due()
    scene.pace.committed(scene.now, 1.0)
    begun = scene.now
    while not scene.pace.is_due(scene.now, scene.size, LIMIT, is_awaited=False):
        scene.now += TICK
        scene.size += 5 * MIB
    assert scene.size <= LIMIT // 2
    assert scene.now - begun < REST_MAX_US


def test_what_is_awaited_waits_for_no_rest() -> None:
    scene = Scene()
    scene.until_due()
    scene.pace.committed(scene.now, 1.0)
    assert scene.until_due(growth=EARLY_BYTES, is_awaited=True) <= 0.2
    scene.pace.committed(scene.now, 1.0)
    assert scene.until_due(growth=1000, is_awaited=True) == PERIOD_US / 1_000_000
