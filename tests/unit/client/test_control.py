"""The control socket of a broker that hangs, is gone, or never was."""

import socket
import threading
from pathlib import Path

import pytest

from daybook.client.control import ControlError, Unanswered, ask, connect, is_running
from daybook.journal.data_directory import CONTROL_SOCKET


def test_without_a_broker_there_is_no_connection(tmp_path: Path) -> None:
    assert connect(tmp_path / "nowhere", 1.0) is None
    assert connect(tmp_path, 1.0) is None
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / CONTROL_SOCKET))
    assert connect(tmp_path, 1.0) is None
    assert ask(tmp_path, {"do": "status"}) is None


def test_a_socket_that_accepts_nothing_is_an_error_in_words(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as hanging:
        hanging.bind(str(tmp_path / CONTROL_SOCKET))
        hanging.listen(0)
        waiting, why = _until_full(tmp_path)
        assert "does not answer: it accepts no more" in why
        with pytest.raises(ControlError, match="does not answer"):
            ask(tmp_path, {"do": "status"}, 0.2)
        assert is_running(tmp_path)
        for each in waiting:
            assert each is not None
            each.close()


def _until_full(directory: Path) -> tuple[list[socket.socket | None], str]:
    """Connect until nobody may any more; return the connections, and the error."""
    made: list[socket.socket | None] = []
    while len(made) < 10:
        try:
            made.append(connect(directory, 0.2))
        except ControlError as error:
            return made, str(error)
    raise AssertionError("every connection was accepted")


@pytest.mark.parametrize("answers", [0, 1])
def test_only_a_request_that_was_sent_may_still_be_carried_out(
    tmp_path: Path, answers: int
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / CONTROL_SOCKET))
        listener.listen(1)
        broker = threading.Thread(target=_answer, args=(listener, answers))
        broker.start()
        with pytest.raises(ControlError, match="did not answer within") as caught:
            ask(tmp_path, {"do": "purge"}, 0.5, before=({"do": "act-as"},))
        broker.join()
    assert isinstance(caught.value, Unanswered) == (answers == 1)


def _answer(listener: socket.socket, answers: int) -> None:
    """Answer so many requests of a connection; then wait until its client gives up."""
    connection, _ = listener.accept()
    with connection:
        for _ in range(answers):
            connection.recv(4096)
            connection.sendall(b'{"result": {}}\n')
        while connection.recv(4096):
            pass
