"""The command line `daybook`: without a broker, and with a real one."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from daybook.client.bodies import BODY_BYTES_IN_MEMORY, PIECE_BYTES, Received
from daybook.client.control import ControlError, ask, is_running
from daybook.client.stomp import Frame
from daybook.server.configuration.config import load
from daybook.tools import daybook as module
from daybook.tools.administration import messages, users
from daybook.tools.daybook import cli
from tests.support.process import wait_for

ROOT = Path(module.__file__).resolve().parent.parent


def run(*arguments: object, text: str | None = None, **environment: str) -> Result:
    clean = {"DAYBOOK_DATA": None, "DAYBOOK_URL": None} | environment
    return CliRunner().invoke(cli, [str(each) for each in arguments], input=text, env=clean)


# ---- without a broker


def test_init_makes_a_configuration_that_loads_and_overwrites_nothing(tmp_path: Path) -> None:
    folder = tmp_path / 'a "quoted" place'
    result = run("init", folder)
    assert result.exit_code == 0, result.output
    config = load(folder / "broker.toml")
    assert config.broker.data_directory == str(folder / "data")
    assert config == load(None, [f"data-directory={folder / 'data'}"])
    assert (folder / "data").is_dir()
    (folder / "broker.toml").write_text("# mine\n")
    again = run("init", folder)
    assert again.exit_code == 1
    assert "exists already and was not changed" in again.output
    assert (folder / "broker.toml").read_text() == "# mine\n"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--set", "nonsense=1"], "nonsense"),
        (["--set", "no-equals"], "no-equals"),
        (["--listen", "gopher://x"], "gopher"),
        (["--config", "/nowhere/broker.toml"], "/nowhere/broker.toml"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_serve_says_what_is_wrong_with_its_flags(
    tmp_path: Path, flags: list[str], words: str
) -> None:
    result = run("serve", "--data", tmp_path / "data", *flags)
    assert result.exit_code == 2
    assert words in result.output
    assert not (tmp_path / "data").exists()


def test_serve_refuses_a_python_without_assertions(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-O",
        "-m",
        "daybook",
        "serve",
        "--data",
        str(tmp_path / "d"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "python runs with -O" in done.stderr
    assert not (tmp_path / "d").exists()


def test_without_a_broker_the_journal_is_read_and_said_so(history: Any) -> None:
    for command in (["status"], ["queue", "list"], ["address", "list"], ["settings", "orders"],
                    ["browse", "orders"]):  # fmt: skip
        result = run(*command, "--data", history.data)
        assert result.exit_code == (3 if command == ["status"] else 0), result.output
        assert f"broker is not running; state at LSN {history.last_lsn}" in result.stderr
        assert "broker is not running" not in result.stdout
    assert "('" not in run("address", "list", "--data", history.data).stdout
    groups = run("queue", "groups", "orders", "--data", history.data)
    assert (groups.exit_code, "so there are no connections" in groups.stderr) == (1, True)
    status = json.loads(run("status", "--data", history.data, "--json").stdout)
    assert status["running"] is False
    assert status["lsn"] == history.last_lsn
    queues = json.loads(run("queue", "list", "--data", history.data, "--json").stdout)
    assert {each["queue"]: each["ready"] for each in queues} == {
        "DLQ": 1, "ExpiryQueue": 1, "audit": 1, "bulk": 0, "ledger": 1, "orders": 1, "stock": 1,
    }  # fmt: skip
    settings = json.loads(run("settings", "orders", "--data", history.data, "--json").stdout)
    merged = {row["key"]: (row["value"], row["match"]) for row in settings["settings"]}
    assert merged["max-delivery-attempts"] == (2, "orders")
    assert merged["dead-letter-address"] == ("DLQ", "#")
    page = json.loads(run("browse", "DLQ", "--json", DAYBOOK_DATA=str(history.data)).stdout)
    assert page["messages"][0]["message"] == history["copy"]
    assert page["messages"][0]["body"] == "two"


def test_without_a_broker_nothing_can_be_changed(history: Any) -> None:
    result = run("queue", "purge", "orders", "--data", history.data)
    assert result.exit_code == 1
    assert "only a running one can change anything" in result.output


def test_a_queue_that_does_not_exist_and_a_directory_that_is_none(
    history: Any, tmp_path: Path
) -> None:
    result = run("browse", "nix", "--data", history.data)
    assert (result.exit_code, "there is no queue 'nix'" in result.output) == (1, True)
    result = run("status", "--data", tmp_path)
    assert (result.exit_code, "is not a data directory" in result.output) == (1, True)


def test_users_are_added_listed_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users, "_can_ask", lambda: True)
    flags = ("--data", tmp_path)
    assert "guest may log in" in run("user", "list", *flags).stderr
    added = run("user", "add", "alice", "--passcode-stdin", *flags, text="secret\n")
    assert added.exit_code == 0, added.output
    asked = run("user", "add", "bob", *flags, text="twice\ntwice\n")
    assert asked.exit_code == 0, asked.output
    assert "twice" not in asked.output
    listed = run("user", "list", *flags).output.splitlines()
    assert [line.split()[0] for line in listed] == ["user", "alice", "bob"]
    rows = json.loads(run("user", "list", *flags, "--json").output)
    assert [row["user"] for row in rows] == ["alice", "bob"]
    text = (tmp_path / "users.toml").read_text()
    assert '"secret' not in text
    again = run("user", "add", "alice", "--passcode-stdin", *flags, text="x\n")
    assert (again.exit_code, "exists already" in again.output) == (1, True)
    empty = run("user", "add", "carol", "--passcode-stdin", *flags, text="\n")
    assert (empty.exit_code, "passcode is empty" in empty.output) == (1, True)
    assert run("user", "remove", "alice", *flags).exit_code == 0
    assert run("user", "remove", "alice", *flags).exit_code == 1
    missing = run("user", "list", "--data", tmp_path / "nowhere")
    assert (missing.exit_code, "is not a directory" in missing.output) == (1, True)


def test_a_passcode_is_not_asked_from_a_pipe(tmp_path: Path) -> None:
    result = run("user", "add", "alice", "--data", tmp_path, text="secret\nsecret\n")
    assert (result.exit_code, "use --passcode-stdin" in result.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a{", "temp.x"])
def test_names_without_settings(history: Any, name: str) -> None:
    result = run("settings", name, "--data", history.data)
    assert (result.exit_code, "is not a name for the address" in result.stderr) == (1, True)


def test_a_body_cannot_act_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    content = Received()
    content.add(b"a\x1b[2J\tb\nc\xff")
    frame = Frame("MESSAGE", {}, content)
    messages._show(frame, False)
    assert capsysbinary.readouterr().out == frame.body + b"\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    messages._show(frame, False)
    assert capsysbinary.readouterr().out == b"a\\x1b[2J\\tb\nc\\xff\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["send", "/queue/a", "x", "--url", "localhost"], 2, "write it like stomp://"),
        (["send", "/queue/a", "x", "--header", "novalue"], 2, "write NAME=VALUE"),
        (["send", "/queue/a", "x", "--priority", "12"], 2, "priority"),
        (["send", "/queue/a", "x", "--file", __file__], 2, "give one of them"),
        (["receive", "/queue/a", "--keep", "--ack", "auto"], 2, "--keep needs"),
        (["receive", "/queue/a", "--reject", "--ack", "auto"], 2, "--reject needs"),
        (["receive", "/queue/a", "--reject", "--keep"], 2, "give one of them"),
        (["send", "/queue/a", "x", "--url", "stomp://127.0.0.1:1"], 1, "is a broker running"),
    ],
)
def test_bad_use_is_said_so(arguments: list[str], code: int, words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == code
    assert words in result.output


def test_a_stale_socket_means_that_no_broker_runs(tmp_path: Path) -> None:
    assert not is_running(tmp_path / "nowhere")
    import socket  # noqa: PLC0415 - one test needs it

    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "control.sock"))
    assert not is_running(tmp_path)
    assert ask(tmp_path, {"do": "status"}) is None


# ---- with a broker


class Served:
    """A broker that runs, and how to reach it."""

    def __init__(self, data: Path, url: str, process: subprocess.Popen[str]) -> None:
        self.data = data
        self.url = url
        self.process = process

    def run(self, *arguments: object, text: str | None = None) -> Result:
        return run(*arguments, text=text, DAYBOOK_DATA=str(self.data), DAYBOOK_URL=self.url)

    def json(self, *arguments: object) -> Any:
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("broker")
    # Deep, so that the path of the control socket is too long for a socket.
    data = folder / ("deep-" * 20) / "data"
    command = [sys.executable, "-m", "daybook", "serve", "--data", str(data),
               "--listen", "stomp://127.0.0.1:0"]  # fmt: skip
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    with process:
        try:
            line = process.stdout.readline()
            assert line.startswith("ready stomp://"), (folder / "log").read_text()
            yield Served(data, line.split()[1], process)
            process.terminate()
            assert process.wait(30) == 0, (folder / "log").read_text()
        finally:
            process.kill()


def test_send_says_where_the_message_went(broker: Served) -> None:
    routed = broker.run("send", "/queue/truth", "x", "--must-route")
    assert routed.exit_code == 0, routed.output
    assert "routed to queue truth" in routed.output
    nobody = broker.run("send", "/topic/nobody", "x")
    assert nobody.exit_code == 0
    assert "dropped: no-binding" in nobody.output
    assert "safe on disk" not in nobody.output
    must = broker.run("send", "/topic/nobody", "x", "--must-route", "--count", 3)
    assert must.exit_code == 1
    assert "3 of 3 went to no queue" in must.output
    told = json.loads(broker.run("send", "/topic/nobody", "x", "--json").output)
    assert (told["routed"], told["dropped"], told["reasons"]) == ([], 1, ["no-binding"])


@pytest.mark.parametrize("name", ["/que/a", "queue/a", "/queues/a", "/tpic/a"])
def test_send_warns_of_a_mistyped_prefix(broker: Served, name: str) -> None:
    sent = broker.run("send", name, "x")
    assert sent.exit_code == 0
    kind = "topic" if "t" in name.split("/")[-2][:1] else "queue"
    assert f"did you mean /{kind}/a?" in sent.output
    assert "warning" not in broker.run("send", "/queue/a/b", "x").output
    assert "warning" not in broker.run("send", "orders.eu", "x").output


def test_what_is_sent_is_received_once(broker: Served) -> None:
    for body in ("one", "two\u00e4"):
        sent = broker.run("send", "/queue/once", body, "--header", "a=b=c:d", "--priority", "7")
        assert sent.exit_code == 0, sent.output
        assert "safe on disk" in sent.output
    got = broker.run("receive", "/queue/once", "--count", 2)
    assert got.output.splitlines() == ["one", "two\u00e4"]
    empty = broker.run("receive", "/queue/once", "--timeout", 0.05)
    assert empty.exit_code == 1
    assert "0 of 1 message arrived" in empty.stderr


def test_bodies_from_files_and_standard_input(broker: Served, tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(b"\xff\x00\n")
    assert broker.run("send", "/queue/bodies", "--file", file).exit_code == 0
    assert broker.run("send", "/queue/bodies", text="piped").exit_code == 0
    lines = broker.run("receive", "/queue/bodies", "--count", 2, "--json").output.splitlines()
    first, second = map(json.loads, lines)
    assert (first["body_base64"], first["body_bytes"]) == ("/wAK", 3)
    assert second["body"] == "piped"


def test_a_large_file_comes_and_goes_in_pieces(broker: Served, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(bytes(range(256)) * (5 * BODY_BYTES_IN_MEMORY // 256) + b"end")
    sent = broker.json("send", "/queue/large", "--file", file, "--count", 2)
    assert (sent["sent"], sent["bytes"]) == (2, 5 * BODY_BYTES_IN_MEMORY + 3)
    with (tmp_path / "out").open("wb") as out:
        command = [sys.executable, "-m", "daybook", "receive", "/queue/large", "--count", "2",
                   "--url", broker.url]  # fmt: skip
        subprocess.run(command, cwd=ROOT, stdout=out, check=True)
    body = file.read_bytes() + b"\n"
    assert (tmp_path / "out").read_bytes() == body + body


def test_what_is_too_large_is_said_while_it_is_sent(broker: Served, tmp_path: Path) -> None:
    file = tmp_path / "sparse"
    with file.open("wb") as made:
        made.truncate(1 << 30)
    refused = broker.run("send", "/queue/large", "--file", file)
    assert refused.exit_code == 1
    assert "max-data-length" in refused.stderr


def test_a_long_body_cannot_act_on_a_terminal_either(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    content = Received()
    content.add(b"x" * (PIECE_BYTES - 1) + "\u00e4\x1b\n".encode() * 3)
    content.add(b"y" * BODY_BYTES_IN_MEMORY + b"\xc3")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    messages._show(Frame("MESSAGE", {}, content), False)
    content.close()
    shown = capsysbinary.readouterr().out.decode()
    assert shown.strip("xy\\c3\n").split("\n") == ["\u00e4\\x1b"] * 3


def test_following_says_that_it_waits(broker: Served) -> None:
    command = [sys.executable, "-m", "daybook", "receive", "/queue/quiet", "--follow",
               "--url", broker.url]  # fmt: skip
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        said = follower.stderr.readline()
        assert said == "waiting for messages from /queue/quiet; Ctrl-C ends\n"
        broker.run("send", "/queue/quiet", "came")
        assert follower.stdout.readline() == "came\n"
        follower.send_signal(signal.SIGINT)
        assert follower.wait(30) == 0


def test_many_and_in_a_transaction(broker: Served) -> None:
    assert broker.json("send", "/queue/many", "x", "--count", 1500)["sent"] == 1500
    assert broker.json("send", "/queue/many", "y", "--count", 20, "--transaction")["sent"] == 20
    rows = {row["queue"]: row for row in broker.json("queue", "list")}
    assert rows["many"]["ready"] == 1520
    assert broker.run("queue", "purge", "many").output == (
        "purged queue 'many': 1,520 messages removed\n"
    )
    rows = {row["queue"]: row for row in broker.json("queue", "list")}
    assert rows["many"]["ready"] == 0
    assert broker.run("queue", "purge", "many").output == "purged queue 'many': it was empty\n"
    broker.run("send", "/queue/many", "x")
    assert broker.json("queue", "purge", "many")["removed"] == 1
    broker.run("send", "/queue/many", "x")
    refused = broker.run("queue", "delete", "many")
    assert refused.exit_code == 1
    assert broker.run("queue", "delete", "many", "--force").output == (
        "deleted queue 'many': 1 message removed\n"
    )


def test_what_exists_is_created_only_if_missing(broker: Served) -> None:
    create = ("queue", "create", "wanted", "--if-missing")
    assert broker.run(*create).output == "created queue 'wanted'\n"
    lsn = broker.json("status")["lsn"]
    again = broker.run(*create)
    assert (again.exit_code, again.output) == (0, "it exists already and was not changed\n")
    assert broker.json(*create)["exists"] is True
    assert broker.json("status")["lsn"] == lsn
    assert broker.run("queue", "create", "wanted").exit_code == 1
    other = broker.run(*create, "--address", "elsewhere")
    assert (other.exit_code, "exists already" in other.output) == (1, True)
    address = ("address", "create", "wanted", "--if-missing")
    assert broker.json(*address)["exists"] is True
    assert "lsn" in broker.json(*address, "--routing-type", "multicast")
    assert broker.json(*address, "--routing-type", "multicast")["exists"] is True


def test_health_is_said_in_a_line(broker: Served, tmp_path: Path) -> None:
    assert (broker.run("health").exit_code, broker.run("health").output) == (0, "healthy\n")
    assert broker.json("health") == {"healthy": True, "problems": [], "warnings": []}
    nobody = run("health", "--data", tmp_path)
    assert (nobody.exit_code, nobody.output) == (3, "no broker runs\n")


def test_a_paused_queue_with_messages_is_a_warning(broker: Served) -> None:
    for name in ("held.up", "idle"):
        broker.run("send", f"/queue/{name}", "x")
    assert broker.run("receive", "/queue/idle").output == "x\n"
    broker.run("queue", "pause", "held.up")
    broker.run("address", "pause", "idle")
    why = "queue held.up is paused, and 1 message waits in it"

    def healthy() -> bool:
        return broker.run("health").output == "healthy\n"

    wait_for(lambda: not healthy(), "the pause to be noticed")
    said = broker.run("health")
    assert (said.exit_code, said.output) == (0, f"warning: {why}\n")
    assert broker.run("health", "--strict").exit_code == 1
    assert broker.json("health") == {"healthy": False, "problems": [], "warnings": [why]}
    assert why in broker.run("status").output
    broker.run("send", "/queue/idle", "x")
    more = "address idle is paused, and 1 message waits in its queue idle"
    wait_for(lambda: more in broker.run("health").output, "the paused address to be noticed")
    broker.run("address", "resume", "idle")
    broker.run("queue", "resume", "held.up")
    wait_for(healthy, "the pauses to end")
    assert broker.run("health", "--strict").exit_code == 0


def test_browsing_and_keeping_leave_messages_where_they_are(broker: Served) -> None:
    broker.run("send", "/queue/kept", "stay", "--header", "k=v")
    for _ in range(2):
        page = broker.json("browse", "kept")
        assert [row["body"] for row in page["messages"]] == ["stay"]
        assert page["messages"][0]["headers"]["k"] == "v"
        kept = broker.run("receive", "/queue/kept", "--keep")
        assert kept.output == "stay\n"
    assert broker.json("browse", "kept")["messages"][0]["delivery_count"] == 0
    assert broker.run("receive", "/queue/kept").output == "stay\n"


def test_a_rejected_message_has_failed_once_more(broker: Served) -> None:
    broker.run("send", "/queue/refused", "poison")
    for attempts in (1, 2):
        assert broker.run("receive", "/queue/refused", "--reject").output == "poison\n"
        (told,) = broker.json("browse", "refused")["messages"]
        assert told["delivery_count"] == attempts
    assert broker.run("receive", "/queue/refused").output == "poison\n"


def test_status_tells_how_it_is(broker: Served) -> None:
    status = broker.json("status")
    assert status["running"] is True
    assert status["pid"] == broker.process.pid
    assert status["durable_lsn"] <= status["lsn"]
    assert status["acceptors"][0]["url"] == broker.url
    text = broker.run("status").output
    for words in ("version", "durable lsn", "sync ms average", "pending bytes", broker.url):
        assert words in text


def test_addresses_and_queues_are_made_and_unmade(broker: Served) -> None:
    def fine(*arguments: str) -> None:
        result = broker.run(*arguments)
        assert result.exit_code == 0, result.output

    fine("address", "create", "news", "--routing-type", "multicast")
    fine("queue", "create", "news.copy", "--address", "news", "--routing-type", "multicast")
    fine("queue", "pause", "news.copy")
    assert broker.run("queue", "pause", "news.copy").exit_code == 1
    fine("queue", "resume", "news.copy")
    rows = {row["address"]: row for row in broker.json("address", "list")}
    assert rows["news"]["queues"] == ["news.copy"]
    assert rows["news"]["remembered_ids"] == 0
    fine("address", "clear-id-cache", "news")
    unknown = broker.run("address", "clear-id-cache", "nix")
    assert (unknown.exit_code, "there is no address 'nix'" in unknown.output) == (1, True)
    refused = broker.run("address", "delete", "news")
    assert (refused.exit_code, "'news.copy'" in refused.output) == (1, True)
    fine("queue", "delete", "news.copy")
    fine("address", "delete", "news")
    assert "news" not in broker.run("address", "list").output


def test_the_control_socket_is_its_owners(broker: Served) -> None:
    assert is_running(broker.data)
    path = broker.data / "control.sock"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600  # noqa: PTH116 - the path is too long
    with pytest.raises(ControlError, match="there is no queue"):
        ask(broker.data, {"do": "browse", "queue": "nix"})


def test_a_second_broker_on_the_directory_is_refused(broker: Served) -> None:
    command = [sys.executable, "-m", "daybook", "serve", "--data", str(broker.data),
               "--listen", "stomp://127.0.0.1:0"]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "only one broker" in done.stderr
    assert str(broker.process.pid) in done.stderr
    assert broker.json("status")["running"] is True


def test_what_the_broker_refuses_is_said_in_its_words(broker: Served) -> None:
    wrong = broker.url.replace("stomp://", "stomp://alice:wrong@")
    result = broker.run("send", "/queue/a", "x", "--url", wrong)
    assert result.exit_code == 1
    assert "login or passcode of 'alice' is wrong" in result.output


def test_the_journal_of_a_running_broker_can_be_read(broker: Served) -> None:
    broker.run("send", "/queue/watched", "x")
    command = [sys.executable, "-m", "daybook.tools.journal_cli", "inspect", "--queue", "watched",
               "--follow", "--limit", "2", "--data", str(broker.data)]  # fmt: skip
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[3] for line in done.stdout.splitlines()] == ["QueueCreated", "Routed"]


def test_completion_can_be_had() -> None:
    environment = os.environ | {"_DAYBOOK_COMPLETE": "bash_source"}
    command = [sys.executable, "-m", "daybook"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment
    )
    assert "_DAYBOOK_COMPLETE=bash_complete" in done.stdout
