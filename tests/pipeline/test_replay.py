"""Replay: the messages, their headers, resumption, and that both engines agree."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from daybook.client.bodies import Content
from daybook.engine import commands as c
from daybook.engine.facts import events, reasons
from daybook.engine.facts.details import RoutedDetail
from daybook.engine.facts.events import chunk_lsns
from daybook.engine.messages import headers
from daybook.engine.messages.content import UnknownFormat
from daybook.history.replays.progress_file import ProgressFile, ProgressFileError
from daybook.journal.disk import Disk, MemoryDisk
from daybook.pipeline.duck import DuckEngine
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.jobs import replay as job
from daybook.pipeline.jobs.archive import archive
from daybook.pipeline.jobs.replay import FROM_HEADER, ID_HEADER, destination_of, replay, survey
from daybook.pipeline.jobs.replay_state import (
    Request,
    State,
    check_id,
    check_same,
    condition_of,
    state_file,
)
from daybook.pipeline.planning import Source
from daybook.pipeline.publishing import Message, Publisher, PublishError
from daybook.pipeline.selection import Selection, SelectionError
from daybook.tools.daybook import cli
from daybook.tools.jobs import replay as tool
from tests.support.histories import some_history, write_history
from tests.support.world import Event, World
from tests.support.worlds.second_format import MAPS, encode_typed, installed, pack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKER = "127.0.0.1:1"
HISTORY = some_history(7, 300)


class Sent(msgspec.Struct, frozen=True):
    """A message as a consumer would see it."""

    key: str
    destination: str
    body: bytes
    headers: tuple[tuple[str, str], ...]
    priority: int
    persistent: bool
    expires: int


def sent(message: Message) -> Sent:
    body = message.body
    return Sent(
        message.key, message.destination,
        b"".join(body.pieces()) if isinstance(body, Content) else body,
        message.headers, message.priority, message.persistent, message.expires,
    )  # fmt: skip


class Broker(Publisher):
    """What a broker makes of transactions, without one: each id is taken once.

    `fail_at` is the number of the call at which the connection is lost, and `before` whether the
    commit had been lost, too.
    """

    def __init__(self) -> None:
        self.taken: dict[str, list[Sent]] = {}
        self.fail_at = -1
        self.before = False

    def publish(self, chunk: str, messages: Sequence[Message]) -> bool:
        failing, self.fail_at = self.fail_at == 0, self.fail_at - 1
        seen = [sent(message) for message in messages]
        if failing and self.before:
            raise PublishError("the broker went away")
        known = chunk in self.taken
        if known:
            assert self.taken[chunk] == seen, "an id stood for something else"
        self.taken[chunk] = seen
        if failing:
            raise PublishError("the broker went away")
        return not known

    @property
    def messages(self) -> list[Sent]:
        return [message for chunk in self.taken.values() for message in chunk]


def expected(journal: Sequence[Event], name: str, **request: Any) -> list[Sent]:
    """The messages that a replay must send, found by looking at each event."""
    names = {
        event.row[events.ADDRESS]: event.decoded.name
        for event in journal
        if event.name == "AddressCreated"
    }
    found = []
    for event in journal:
        flags = event.row[events.FLAGS]
        if event.name != "Routed" or flags & events.BODY_OMITTED:
            continue
        if event.reason != reasons.SENT and not request.get("copies"):
            continue
        detail = event.decoded
        assert isinstance(detail, RoutedDetail)
        body = event.body
        if flags & events.LARGE:
            body = b"".join(journal[lsn - 1].body for lsn in chunk_lsns(detail))
        marks = ((FROM_HEADER, str(event.lsn)), (ID_HEADER, name))
        found.append(
            Sent(
                str(event.lsn), request.get("into") or names[event.row[events.ADDRESS]], body,
                (*headers.parse(event.headers), *marks), event.row[events.PRIORITY],
                bool(flags & events.PERSISTENT),
                detail.expires if request.get("keep_expiry") else 0,
            )
        )  # fmt: skip
    return found


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    directory = write_history(
        tmp_path_factory.mktemp("history") / "data", HISTORY, segment_bytes=1 << 15
    )
    return History(Source(str(directory)))


@pytest.fixture
def engine() -> Iterator[Engine]:
    with closing(DuckEngine()) as made:
        yield made


def run(
    engine: Engine, history: History, state: State, broker: Broker, file: ProgressFile[State]
) -> job.Report:
    """One run, as the command does it."""
    kept = file.load() or state
    found = survey(engine, history, kept)
    return replay(engine, history, kept, found, broker, file)


def request(rows: int = 7, **values: Any) -> Request:
    return Request(values.pop("selection", Selection()), BROKER, rows=rows, **values)


# ---- what is sent


@pytest.mark.parametrize(
    "values",
    [{}, {"copies": True}, {"into": "/queue/again"}, {"keep_expiry": True, "copies": True}],
    ids=str,
)
def test_every_message_is_sent_as_it_was(
    engine: Engine, history: History, tmp_path: Path, values: dict[str, Any]
) -> None:
    broker, file = Broker(), state_file(tmp_path / "state")
    report = run(engine, history, State("r", request(**values)), broker, file)
    wanted = expected(HISTORY, "r", **values)
    assert broker.messages == wanted
    assert (report.published, report.already, report.incomplete) == (len(wanted), 0, 0)
    assert report.bytes == sum(len(message.body) for message in wanted)
    assert any(len(message.body) > 800 for message in wanted), "none was large"
    assert any(message.persistent for message in wanted)
    assert max(len(chunk) for chunk in broker.taken.values()) == 7
    state = file.load()
    assert state is not None
    assert state.is_done
    assert state.published == len(wanted)


def test_a_survey_counts_what_is_sent_and_what_is_not(engine: Engine, history: History) -> None:
    found = survey(engine, history, State("r", request()))
    wanted = expected(HISTORY, "r")
    assert found.messages == len(wanted)
    for each in found.addresses:
        bodies = [len(message.body) for message in wanted if message.destination == each.address]
        assert (each.messages, each.bytes) == (len(bodies), sum(bodies))
    routed = [event for event in HISTORY if event.name == "Routed"]
    originals = [event for event in routed if event.reason == reasons.SENT]
    omitted = [event for event in originals if event.row[events.FLAGS] & events.BODY_OMITTED]
    assert (found.omitted, found.copies) == (len(omitted), len(routed) - len(originals))
    assert omitted
    assert found.copies
    assert found.last_lsn == originals[-1].lsn
    assert found.addresses[0].first_time >= HISTORY[0].row[events.TIME]


def test_a_selection_and_a_condition_choose(
    engine: Engine, history: History, tmp_path: Path
) -> None:
    chosen = Selection(addresses=("orders", "news"), from_lsn=200, to_lsn=900)
    asked = request(selection=chosen, copies=True, where="headers['kind'] = 'big' AND priority = 4")
    broker = Broker()
    run(engine, history, State("r", asked), broker, state_file(tmp_path / "state"))
    wanted = [
        message
        for message in expected(HISTORY, "r", copies=True)
        if message.destination in ("orders", "news") and 200 <= int(message.key) <= 900
        and dict(reversed(message.headers)).get("kind") == "big" and message.priority == 4
    ]  # fmt: skip
    assert broker.messages == wanted
    assert wanted


def test_windows_make_no_difference(
    engine: Engine, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "BUCKET_LSNS", 50)
    monkeypatch.setattr(job, "WINDOW_ROWS", 20)
    found = survey(engine, history, State("r", request()))
    assert len(found.windows) > 5
    broker = Broker()
    run(engine, history, State("r", request()), broker, state_file(tmp_path / "state"))
    assert broker.messages == expected(HISTORY, "r")
    assert max(len(chunk) for chunk in broker.taken.values()) == 7


def test_parquet_gives_the_same_messages(engine: Engine, history: History, tmp_path: Path) -> None:
    archive(history.source, str(tmp_path / "parquet"))
    both = History(history.source, str(tmp_path / "parquet"))
    broker = Broker()
    run(engine, both, State("r", request()), broker, state_file(tmp_path / "state"))
    assert broker.messages == expected(HISTORY, "r")


def test_spark_sends_the_same_messages(
    spark: "SparkSession", engine: Engine, history: History, tmp_path: Path
) -> None:
    from daybook.pipeline.spark.engine import SparkEngine  # noqa: PLC0415

    asked = request(rows=200, where="coalesce(headers['kind'], '') <> 'small'")
    taken = []
    for number, each in enumerate((engine, SparkEngine())):
        broker = Broker()
        file = state_file(tmp_path / str(number))
        run(each, history, State("r", asked), broker, file)
        taken.append(broker.taken)
        each.close()
    assert taken[0] == taken[1]
    assert sum(map(len, taken[0].values())) > 50


# ---- going on


@pytest.mark.parametrize("seed", range(6))
def test_whenever_it_is_stopped_each_message_is_sent_once(
    engine: Engine, history: History, tmp_path: Path, seed: int
) -> None:
    chance = Random(seed)
    rows = chance.choice((1, 7, 30))
    broker, file = Broker(), state_file(tmp_path / "state")
    already = 0
    while True:
        broker.fail_at, broker.before = chance.randrange(2, 400 // rows + 3), chance.random() < 0.5
        try:
            report = run(engine, history, State("r", request(rows)), broker, file)
        except PublishError:
            continue
        already += report.already
        break
    assert broker.messages == expected(HISTORY, "r")
    state = file.load()
    assert state is not None
    assert state.published == len(broker.messages)


def test_what_came_since_is_sent_by_the_next_run_and_nothing_of_its_own(tmp_path: Path) -> None:
    world = World()
    for number in range(10):
        world.send("orders", b"%d" % number)
    world.connect()
    file, broker, state = state_file(tmp_path / "state"), Broker(), State("r", request(4))

    def next_run() -> list[bytes]:
        directory = write_history(tmp_path / str(len(world.journal)), world.journal)
        before = len(broker.messages)
        with DuckEngine() as engine:
            run(engine, History(Source(str(directory))), state, broker, file)
        return [message.body for message in broker.messages[before:]]

    assert next_run() == [b"%d" % number for number in range(10)]
    kept = file.load()
    assert kept is not None
    # As if it had been killed behind its last message, and something had followed that.
    kept.end_lsn = kept.done_lsn + 1
    file.save(kept)
    # What was replayed is history, too.
    for message in broker.messages:
        world.send("orders", message.body, headers=dict(message.headers))
    world.send("orders", b"new")
    assert next_run() == [b"new"]
    world.connect()
    assert next_run() == []


def test_a_large_message_that_lost_a_chunk_is_told_and_passed_over(tmp_path: Path) -> None:
    world = World()
    connection = world.connect()
    world.send("a", b"first")
    command = c.Send(connection, "a", b"", b"")
    world.ok(c.Chunk(command, b"piece", 0))
    lost = len(world.journal)
    command.chunks = (lost - 1,)  # An event that is not a chunk.
    command.body_bytes = 5
    world.ok(command)
    world.send("a", b"last")
    directory = write_history(tmp_path / "data", world.journal)
    broker, file = Broker(), state_file(tmp_path / "state")
    with DuckEngine() as engine:
        report = run(engine, History(Source(str(directory))), State("r", request()), broker, file)
    assert [message.body for message in broker.messages] == [b"first", b"last"]
    assert (report.published, report.incomplete) == (2, 1)


def test_a_large_body_is_read_where_history_has_it_now(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its segment may move to the archive while a replay runs."""
    disks: list[Disk] = [MemoryDisk(), history.source.disk()]
    monkeypatch.setattr(job, "segments_of", lambda _: nullcontext(disks.pop(0)))
    event = next(
        each for each in HISTORY if each.name == "Routed" and each.row[events.FLAGS] & events.LARGE
    )
    whole = b"".join(HISTORY[lsn - 1].body for lsn in chunk_lsns(event.decoded))
    with closing(job.Bodies(history)) as bodies:
        content = bodies.content("1", event.detail, event.decoded.body_bytes)
        assert bodies.incomplete([Message("a", content, key="1")]) == set()
        assert not disks
        assert b"".join(content.pieces()) == whole


def test_a_message_of_another_format_is_translated_or_named(tmp_path: Path) -> None:
    with installed():
        world = World()
        block = encode_typed({"n": 7}, destination="/queue/a", type="t")
        lsn = world.ok(c.Send(world.connect(), "a", block, pack([1, "x"]), format=MAPS))
        history = History(Source(str(write_history(tmp_path / "data", world.journal))))
        broker = Broker()
        with DuckEngine() as engine:
            run(engine, history, State("r", request()), broker, state_file(tmp_path / "one"))
    [message] = broker.messages
    assert (message.destination, message.body) == ("/queue/a", b'[1,"x"]')
    kept = (("destination", "/queue/a"), ("type", "t"), ("n", "7"))
    assert message.headers == (*kept, (FROM_HEADER, str(lsn)), (ID_HEADER, "r"))
    with DuckEngine() as engine, pytest.raises(UnknownFormat, match="cannot be replayed") as error:
        run(engine, history, State("s", request()), broker, state_file(tmp_path / "two"))
    assert f"message {lsn} " in str(error.value)
    assert "content format 5" in str(error.value)


# ---- words and state


@pytest.mark.parametrize(
    ("address", "queue", "reason", "given", "wanted"),
    [
        ("a", "a", "sent", {}, ("a", "")),
        ("a", "a", "sent", {"destination": "/queue/a"}, ("/queue/a", "")),
        ("a", None, "sent", {"destination": "/topic/a"}, ("/topic/a", "")),
        ("a", "q", "sent", {"destination": "/queue/a::q"}, ("/queue/a::q", "")),
        ("a", "a", "sent", {"destination": "a", "destination-type": "ANYCAST"}, ("a", "anycast")),
        ("a", "a", "sent", {"destination": "a", "destination-type": "odd"}, ("a", "")),
        ("a", "dsub.s", "sent", {"destination": "/dsub/s"}, ("a::dsub.s", "")),
        ("a", "a", "sent", {"destination": "jms.queue.a"}, ("a", "")),
        ("dead", "dead", "dead-letter", {"destination": "/queue/dead"}, ("dead", "")),
        ("/topic/a", "q", "sent", {"destination": "/queue//topic/a"}, ("/queue//topic/a", "")),
    ],
)
def test_where_a_message_goes(
    address: str, queue: str | None, reason: str, given: dict[str, str], wanted: tuple[str, str]
) -> None:
    assert destination_of(address, queue, reason, given) == wanted


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("a =", "not a condition in SQL"),
        ("1=1) UNION SELECT (1", "not a condition in SQL"),
        ("lsn > 1; DROP TABLE x", "not a condition in SQL"),
        ("lsn = (SELECT max(lsn) FROM replay_seen)", "more than one event"),
        ("count(*) > 1", "more than one event"),
        ("headers.stock = 'x'", r"a header like headers\['stock'\]"),
        ("priorty = 4", "did you mean priority"),
    ],
)
def test_conditions_that_cannot_be_asked(where: str, words: str) -> None:
    with pytest.raises(SelectionError, match=words):
        condition_of(where)


def test_conditions_need_the_columns_that_they_name() -> None:
    asked = condition_of("priority > 4 AND headers['a'] = 'b' OR priority < 2")
    assert asked.columns == ("priority", "headers")
    assert condition_of(" ").sql == "TRUE"
    assert condition_of("lsn > 5 -- OR TRUE").columns == ("lsn",)


def test_a_state_is_kept_whole_and_by_one(tmp_path: Path) -> None:
    file = state_file(tmp_path / "deep" / "state")
    with file.locked():
        assert file.load() is None
        state = State("r", request(selection=Selection(queues=("q",))), done_lsn=7, end_lsn=9)
        file.save(state)
        assert file.load() == state
        with pytest.raises(ProgressFileError, match="another process"), file.locked():
            pass
    with file.locked():
        file.path.write_text("{}")
        with pytest.raises(ProgressFileError, match="not the state of a replay"):
            file.load()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Request(Selection(), "other:1", rows=0), "goes to 127.0.0.1:1"),
        (Request(Selection(), BROKER, where="lsn > 1", rows=0), "another where"),
        (Request(Selection(from_lsn=3), BROKER, rows=0), "another from lsn"),
        (Request(Selection(), BROKER, rows=9), "another rows"),
        (Request(Selection(), BROKER, copies=True, rows=0), "another copies"),
    ],
)
def test_a_replay_goes_on_as_what_it_was_begun(given: Request, words: str) -> None:
    state = State("r", request(selection=Selection(from_lsn=2, since=5)))
    path = Path("state")
    check_same(state, state.request, path)
    check_same(state, Request(Selection(), BROKER, rows=0), path)
    with pytest.raises(SelectionError, match=words):
        check_same(state, given, path)


@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "a b", "x" * 101])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(SelectionError, match="cannot name a replay"):
        check_id(name)


# ---- the command


@pytest.fixture
def call(history: History, tmp_path: Path) -> Callable[..., Result]:
    def called(*arguments: str) -> Result:
        return CliRunner().invoke(
            cli,
            ["pipeline", "replay", "--data", history.source.directory, *arguments],
            env={"XDG_STATE_HOME": str(tmp_path), "DAYBOOK_ARCHIVE": "", "DAYBOOK_DATA": ""},
        )

    return called


def test_a_dry_run_counts_and_leaves_nothing(call: Callable[..., Result], tmp_path: Path) -> None:
    wanted = expected(HISTORY, "r")
    shown = call("--dry-run", "--id", "try")
    assert shown.exit_code == 0, shown.output
    assert f"{len(wanted):,} messages would be sent" in shown.stderr
    assert "bodies are not journaled" in shown.stderr
    assert "that the broker made" in shown.stderr
    told = msgspec.json.decode(call("--dry-run", "--json", "--address", "orders").stdout)
    assert [each["address"] for each in told["addresses"]] == ["orders"]
    assert told["messages"] == sum(message.destination == "orders" for message in wanted)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--queue", "orders"], 2, "name it with --into"),
        (["--into", "nonsense//"], 2, "--into 'nonsense//' is not a destination"),
        (["--into", "/queue/"], 2, "--into '/queue/' is not a destination"),
        (["--into", "orders::"], 2, "--into 'orders::' is not a destination"),
        (["--where", "body > 1"], 2, "--where 'body > 1'"),
        (["--where", "CAST(decode(body) AS BIGINT) = 1"], 1, "history cannot be asked: Conv"),
        (["--where", "bodi = 1"], 2, "did you mean body"),
        (["--address", "oders"], 2, "did you mean 'orders'"),
        (["--id", "a/b"], 2, "cannot name a replay"),
        (["--url", "stomp://127.0.0.1:1", "--id", "x"], 1, "nothing was published"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    call: Callable[..., Result], arguments: list[str], code: int, words: str
) -> None:
    shown = call(*arguments)
    assert shown.exit_code == code, shown.output
    assert words in shown.stderr


@pytest.mark.parametrize(
    "into", ["/queue/größe/kg", "/topic/news", "orders", "a/b::c", "/queue/a::b", "/dsub/n1"]
)
def test_destinations_that_are_right(call: Callable[..., Result], into: str) -> None:
    assert call("--dry-run", "--into", into).exit_code == 0


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Broker:
    """A stand-in for the broker that the command publishes to."""
    broker = Broker()
    monkeypatch.setattr(Broker, "connect", lambda self: None)
    monkeypatch.setattr(Broker, "close", lambda self: None)
    monkeypatch.setattr(tool, "Publisher", lambda *args, **kwargs: broker)
    monkeypatch.setattr(tool, "check_remembers", lambda *args: None)
    return broker


def test_a_replay_tells_what_it_did_and_does_it_once(
    call: Callable[..., Result], taken: Broker, tmp_path: Path
) -> None:
    wanted = expected(HISTORY, "again")
    shown = call("--id", "again", "--rate", "40")
    assert shown.exit_code == 0, shown.output
    size = sum(len(message.body) for message in wanted)
    assert f"published {len(wanted)} messages, {size:,} bytes in " in shown.stdout
    assert "into the addresses that they had at 127.0.0.1:61613" in shown.stderr
    assert "bodies are not journaled" in shown.stderr
    assert taken.messages == wanted
    assert max(len(chunk) for chunk in taken.taken.values()) == 40
    kept = tmp_path / "daybook" / "replay" / "again.json"
    shown = call("--state", str(kept), "--json")
    assert msgspec.json.decode(shown.stdout)["messages"] == 0
    assert "there is nothing new" in call("--id", "again").stdout
    assert taken.messages == wanted
    shown = call("--id", "another", "--state", str(kept))
    assert shown.exit_code == 2
    assert "is of replay again" in shown.stderr


def test_a_replay_that_is_stopped_says_how_to_go_on(
    call: Callable[..., Result], taken: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish, calls = Broker.publish, iter(range(100))

    def interrupt(self: Broker, chunk: str, messages: Sequence[Message]) -> bool:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return publish(self, chunk, messages)

    monkeypatch.setattr(Broker, "publish", interrupt)
    arguments = ("--id", "again", "--transaction-messages", "20")
    shown = call(*arguments)
    assert shown.exit_code == 130
    assert "stopped; 60 messages are published" in shown.stderr
    assert "--id again resumes it" in shown.stderr
    taken.fail_at = 0
    shown = call(*arguments)
    assert shown.exit_code == 1
    assert "Error: the broker went away\n60 messages are published" in shown.stderr
    shown = call(*arguments)
    assert shown.exit_code == 0, shown.output
    sizes = [len(message.body) for message in expected(HISTORY, "again")]
    assert f"published {len(sizes) - 80} messages, 20 were there already" in shown.stdout
    assert f", {sum(sizes[80:]):,} bytes in" in shown.stdout
    assert "replay again continues with" in shown.stderr
    assert taken.messages == expected(HISTORY, "again")
