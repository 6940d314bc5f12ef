"""The states of a STOMP connection in docs/stomp.md, drawn from `protocols.stomp.wire.states`.

`make map` (python -m tests.meta.drawn.states_page) draws them; a test compares.
"""

from daybook.protocols.stomp.wire import states
from tests.meta import tree
from tests.meta.drawn.drawn_part import Drawn
from tests.meta.drawn.events_page import table

CAUSES = {
    states.LOGIN: "CONNECT or STOMP",
    states.OPENED: "the login is right: CONNECTED",
    states.ENDED: "DISCONNECT, ERROR, a deadline, or the client is gone",
}
ANSWERS = {
    states.HOLD: "waits for the login",
    states.IGNORE: "ignored",
    states.TOO_EARLY: "ERROR: before CONNECT",
    states.TWICE: "ERROR: connected already",
    states.NOT_FOR_CLIENTS: "ERROR: not for brokers",
}


def draw() -> str:
    """Return the part of the page: what changes the state, and what a command does in each."""
    arrows = [
        f"    {state} --> {after}: {CAUSES[cause]}"
        for (state, cause), after in states.TRANSITIONS.items()
        if state != after
    ]
    diagram = [
        "```mermaid", "stateDiagram-v2", f"    [*] --> {states.NEW}", *arrows,
        f"    {states.CLOSED} --> [*]", "```",
    ]  # fmt: skip
    rows = [
        (f"`{command}`", *(_answer(state, command) for state in states.STATES))
        for command in states.CLIENT_COMMANDS + states.SERVER_COMMANDS
    ]
    return "\n".join(["", *diagram, "", *table(("frame of a client", *states.STATES), rows), ""])


def _answer(state: str, command: str) -> str:
    action = states.TABLE[state, command]
    return ANSWERS.get(action, "carried out")


PART = Drawn(tree.ROOT / "docs" / "stomp.md", "states", draw)

if __name__ == "__main__":
    PART.redraw()
