"""The cost of a hop is measured on each way, and of both brokers."""

from bench.engine.hops import ways


def test_messages_come_by_every_way() -> None:
    """A turn says so if not all of them arrive."""
    found = ways()
    for way in found.values():
        for _ in range(3):
            way.turn(5)
    passing = {name for name, way in found.items() if way.found()[1] > 0}
    assert passing == {"sharded, the shard there", "bridge, received there", "link route"}
    assert all(way.found()[0] > 0 for way in found.values())
