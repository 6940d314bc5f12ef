"""Words for what became of messages: how their entries left their queues, or that none did."""

from typing import Final

from daybook.engine.facts import events
from daybook.engine.facts.kinds import LEAVING, outcome

REPLAY_OF: Final = "x-daybook-replay-of"
"""Header of a message that was replayed: the id of the original, `@`, and its data id."""
ACKNOWLEDGED: Final = outcome(events.ACKNOWLEDGED)
NEVER_ACKNOWLEDGED: Final = "never-acknowledged"
WAITING: Final = "waiting"
"""In a queue still, ready or not, where history ends."""
FATES: Final = (*sorted(map(outcome, LEAVING)), NEVER_ACKNOWLEDGED, WAITING)
