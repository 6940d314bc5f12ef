"""What a replayed message is a replay of, in words."""

from collections.abc import Iterator
from contextlib import suppress

from daybook.engine.facts import events
from daybook.engine.facts.events import FLAGS, KIND
from daybook.engine.messages.content import UnknownFormat, View
from daybook.history.fate_words import REPLAY_OF
from daybook.history.scan import Event


def replay_of(event: Event) -> Iterator[str]:
    """Yield a sentence if an event routed a replayed message."""
    if event.row[KIND] == events.ROUTED and REPLAY_OF.encode() in event.headers:
        with suppress(UnknownFormat):
            origin = str(View(event.row[FLAGS], event.headers).get(REPLAY_OF))
            message, _, data_id = origin.partition("@")
            yield f"a replay of message {message} of data directory {data_id}"
