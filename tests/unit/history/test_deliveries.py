"""A story names the deliveries of a message that did not count as attempts."""

from contextlib import closing
from pathlib import Path

from daybook.history import trail
from daybook.history.event_finder import EventFinder
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from tests.support.histories import twice_delivered


def test_a_story_says_which_deliveries_did_not_count(tmp_path: Path) -> None:
    data, message = twice_delivered(tmp_path / "data")
    with closing(EventFinder(RealDisk(data / JOURNAL), data)) as finder:
        story = trail.follow(finder, message, data)
    delivered = [each for each in story.steps if each.told["kind"] == "Delivered"]
    assert ["attempt 1" in each.text for each in delivered] == [True, True]
    first, second = ([each.text for each in step.consequences] for step in delivered)
    assert not first
    assert second == [
        "this is delivery 2 from queue 'orders'; it is attempt 1 because 1 of the deliveries "
        "before did not count"
    ]
    assert story.now == ((message, "ready in queue 'orders', 0 counted attempts"),)
