"""The table of states: every pair of state and command, run through a session."""

import pytest

from daybook.engine.commands import CloseConnection
from daybook.protocols.stomp.actions import ACTIONS
from daybook.protocols.stomp.wire import states
from tests.meta.drawn import states_page
from tests.unit.protocols.stomp.fakes import Peer, connected

COMMANDS = states.CLIENT_COMMANDS + states.SERVER_COMMANDS

VALID = {
    "CONNECT": "CONNECT\naccept-version:1.2\nhost:h",
    "STOMP": "STOMP\naccept-version:1.2\nhost:h",
    "SEND": "SEND\ndestination:/queue/a",
    "SUBSCRIBE": "SUBSCRIBE\nid:2\ndestination:/queue/a",
    "UNSUBSCRIBE": "UNSUBSCRIBE\nid:1",
    "ACK": "ACK\nid:1-5",
    "NACK": "NACK\nid:1-5",
    "BEGIN": "BEGIN\ntransaction:t",
    "COMMIT": "COMMIT\ntransaction:t",
    "ABORT": "ABORT\ntransaction:t",
    "DISCONNECT": "DISCONNECT",
}


def in_state(state: str) -> Peer:
    if state == states.NEW:
        return Peer()
    if state == states.AUTHENTICATING:
        peer = Peer()
        peer.send(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
        return peer
    peer = connected()
    peer.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n\n\0")
    if state == states.CLOSED:
        peer.send(b"DISCONNECT\n\n\0")
    peer.broker.commands.clear()
    return peer


@pytest.mark.parametrize("state", states.STATES)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_pair(state: str, command: str) -> None:
    peer = in_state(state)
    assert peer.session.state == state
    head = VALID.get(command, command + "\na:b")
    output = peer.send((head + "\nreceipt:r\n\n\0").encode())
    action = states.TABLE[(state, command)]
    if action in (states.HOLD, states.IGNORE):
        assert output == b""
        assert peer.broker.commands == []
        assert peer.session.state == state
    elif action in (states.TOO_EARLY, states.TWICE, states.NOT_FOR_CLIENTS):
        assert output.startswith(b"ERROR\nmessage:" + command.encode())
        assert b"\nreceipt-id:r\n" in output
        assert peer.session.closing
    elif action == "CONNECT":
        assert output == b""
        assert peer.session.login_request == ("", "", False)
        assert peer.session.state == states.AUTHENTICATING
    else:
        assert output == b"RECEIPT\nreceipt-id:r\n\n\0"
        assert len(peer.broker.commands) == 1
        ended = isinstance(peer.broker.commands[0], CloseConnection)
        assert peer.session.state == (states.CLOSED if ended else states.CONNECTED)


def test_the_table_has_every_pair() -> None:
    assert set(states.TABLE) == {
        (state, command) for state in states.STATES for command in COMMANDS
    }


def test_the_page_shows_the_tables() -> None:
    assert states_page.PART.is_current()


def test_every_action_of_the_table_is_known() -> None:
    words = {states.HOLD, states.IGNORE, states.TOO_EARLY, states.TWICE, states.NOT_FOR_CLIENTS}
    assert set(states.TABLE.values()) == words | set(ACTIONS) | {"CONNECT", "SEND"}


@pytest.mark.parametrize("state", [states.NEW, states.CONNECTED])
@pytest.mark.parametrize("command", ["send", "HELLO", "", "SEND ", "X" * 5000, "A\x01"])
def test_unknown_commands(state: str, command: str) -> None:
    peer = in_state(state)
    output = peer.send(command.encode() + b"\nreceipt:r\n\n\0")
    if command == "":
        # An empty line is a heart-beat: what follows it is the command.
        assert b"unknown command" in output
    else:
        assert output.startswith(b"ERROR\nmessage:unknown command")
        assert b"\nreceipt-id:r\n" in output
        assert len(output) < 1000
    assert peer.session.closing


def test_closed_session_closes_the_connection_once() -> None:
    peer = in_state(states.CONNECTED)
    peer.send(b"HELLO\n\n\0")
    peer.session.connection_lost(peer.now)
    assert len(peer.broker.of(CloseConnection)) == 1
