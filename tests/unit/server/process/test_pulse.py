"""The pulse of a broker: quick while anything happens, slow when nothing does."""

from daybook.server.process.pulse import CALM_TICKS, IDLE_SECONDS, TICK_SECONDS, Pulse


class Scene:
    """A broker of which only the pulse can be seen."""

    def __init__(self) -> None:
        self.connections: set[int] = set()
        self.lsn = 7
        self.pulse = Pulse([set(), self.connections], lambda: self.lsn)
        self.pulse.tick()

    def ticks(self, count: int) -> float:
        for _ in range(count):
            self.pulse.tick()
        return self.pulse.seconds()


def test_it_slows_down_when_nothing_happens_for_a_while() -> None:
    scene = Scene()
    assert scene.ticks(CALM_TICKS - 1) == TICK_SECONDS
    assert scene.ticks(1) == IDLE_SECONDS


def test_it_is_quick_as_long_as_somebody_is_connected() -> None:
    scene = Scene()
    scene.ticks(CALM_TICKS)
    scene.connections.add(1)
    assert scene.ticks(10 * CALM_TICKS) == TICK_SECONDS
    scene.connections.clear()
    assert scene.ticks(CALM_TICKS) == IDLE_SECONDS


def test_it_is_quick_after_each_event() -> None:
    scene = Scene()
    scene.ticks(CALM_TICKS)
    scene.lsn += 1
    assert scene.ticks(1) == TICK_SECONDS
    assert scene.ticks(CALM_TICKS) == IDLE_SECONDS
