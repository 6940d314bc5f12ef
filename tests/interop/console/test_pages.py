"""What pages show: the answers of the broker and of its history, and the commands for them."""

import json
import re
import shlex
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from daybook.console.brokers import READ_SECONDS
from daybook.server.administration.ways import every_way
from daybook.texts import moment
from tests.interop.console.using import send
from tests.interop.using import daybook, events
from tests.interop.wire import Wire
from tests.support import nursery
from tests.support.console import Browser, ConsoleProcess, Form, Shown
from tests.support.process import DAYBOOK, JOURNAL, BrokerProcess, wait_for

pytestmark = pytest.mark.interop

ONE = '[[broker]]\nname = "a"\ndata = "x"\n'
Visit = Callable[[str], Browser]
HOSTILE = "<script>alert(1)</script><svg onload=alert(1)>\u202eabc\x07 &amp; {{7*7}}"


def command_on(shown: Shown, begin: str = r'<code id="command">') -> list[str]:
    """Return the words of the command that a page shows, or of another one that begins so."""
    found = re.search(rf"{begin}([^<]*)</code>", shown.text)
    assert found, shown.words
    return shlex.split(unescape(found[1]))


def answer_of(words: list[str]) -> Any:
    """Run a command, and return its answer for programs."""
    program = {"daybook": DAYBOOK, "journal": JOURNAL}[words[0]]
    options = [*words[1:], "--json"]
    if "--" in options:
        options.insert(options.index("--"), options.pop())
    done = nursery.run([program, *options], capture_output=True, check=False, text=True)
    assert done.returncode == 0, (words, done.stderr)
    if words[0] == "daybook":
        return json.loads(done.stdout)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _newest_by(broker: BrokerProcess) -> str:
    """Return who made the newest change that the journal proves."""
    return "".join(str(each["detail"]["by"]) for each in events(broker, "Administered")[-1:])


def test_each_list_of_the_table_is_a_page(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "lists.a", "x")
    browser = visit("ada")
    names = dict.fromkeys(("queue", "address", "groups", "consumers-of", "count"), "lists.a")
    for found in every_way():
        if found.way.table is None or found.tag == "shards":
            continue
        named = names.get(found.tag)
        query = {"address" if found.tag == "address" else "queue": named} if named else {}
        shown = browser.get(f"/b/data/list/{found.tag}", **query)
        assert shown.status == 200, (found.tag, shown.error)
        rows = answer_of(command_on(shown))
        assert shown.text.count("<tr>") == (len(rows) + 1 if rows else 0), found.tag
    assert browser.get("/b/data/list/nothing").status == 404


def test_queues_are_searched_sorted_and_paged(broker: BrokerProcess, visit: Visit) -> None:
    for number in range(5):
        send(broker, f"many.{number}", "x", "--count", str(number + 1))
    browser = visit("ada")

    def names(**query: str | int) -> list[str]:
        shown = browser.get("/b/data/list/queues", search="MANY", **query)
        answered = [each["queue"] for each in answer_of(command_on(shown))]
        found = re.findall(r"queue\?queue=(many\.\d)", shown.text)
        assert found == answered[query.get("offset", 0) :][: query.get("limit", 100)]  # type: ignore[misc]
        return found

    assert names() == [f"many.{number}" for number in range(5)]
    assert names(sort="ready", descending="true") == [
        f"many.{number}" for number in (4, 3, 2, 1, 0)
    ]
    assert names(sort="ready", limit=2, offset=2) == ["many.2", "many.3"]
    shown = browser.get("/b/data/list/queues", search="many", limit=2)
    assert "offset=2" in shown.text
    assert browser.get("/b/data/list/queues", limit=0).status == 400
    assert browser.get("/b/data/list/queues", sort="nonsense").status in (200, 400)


def test_a_queue_has_its_rates_and_what_is_in_memory(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "rated", "x", "--count", "3")
    browser = visit("ada")
    first = browser.get("/b/data/queue", queue="rated").words
    assert "in memory 3 paged to disk 0" in first
    assert "added per second" not in first
    send(broker, "rated", "x", "--count", "3")
    wait_for(
        lambda: "added per second" in browser.get("/b/data/queue", queue="rated").words, "rates"
    )


def test_the_overview_says_where_to_read_about_a_problem(
    broker: BrokerProcess, visit: Visit
) -> None:
    browser = visit("ada")
    send(broker, "resting", "x")
    browser.do("/b/data/do/queue/pause", queue="resting")
    where = "Runbook: docs/cli.md, Looking and changing"
    wait_for(lambda: where in browser.get("/b/data").words, "the warning")
    shown = browser.get("/b/data")
    for text in ("dead letters waiting", "messages unrouted", "Memory messages"):
        assert text in shown.words
    assert 'href="/b/data/docs/cli#looking-and-changing"' in shown.text
    browser.do("/b/data/do/queue/resume", queue="resting")
    wait_for(lambda: where not in browser.get("/b/data").words, "its end")


def test_messages_are_listed_with_their_headers_and_deaths(
    broker: BrokerProcess, visit: Visit
) -> None:
    browser = visit("ada")
    send(broker, "apart", "x", "--header", "order=77", "--header", "JMSType=t")
    listed = browser.get("/b/data/messages", queue="apart")
    assert "order=77" in listed.words
    assert "died" not in listed.words
    [number, *_] = re.findall(r"message=(\d+)", listed.text)
    one = browser.get("/b/data/message", queue="apart", message=number)
    assert re.search(r"in this queue since 20\d\d-", one.words)
    browser.do("/b/data/do/settings/set", match="apart", values="max-delivery-attempts=1")
    url = f"stomp://ada:ada@127.0.0.1:{broker.port}"
    command = [DAYBOOK, "receive", "apart", "--reject", "--url", url]
    assert nursery.run(command, capture_output=True, check=False, text=True).returncode == 0
    dead = browser.get("/b/data/messages", queue="DLQ", filter="order = '77'")
    assert re.search(r"delivery-limit in apart, 20\d\d-", dead.words)


def test_what_clients_wrote_is_shown_and_never_obeyed(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "hostile", HOSTILE, "--header", "x=<img src=x onerror=alert(1)>")
    browser = visit("ada")
    page = browser.get("/b/data/messages", queue="hostile")
    number = re.search(r"message=(\d+)", page.text)
    assert number
    one = browser.get("/b/data/message", queue="hostile", message=number[1])
    story = browser.get("/b/data/story", message=number[1])
    for shown in (page, one, story):
        assert shown.status == 200
        for mark in ("<script>alert", "<svg onload", "<img src=x", "\u202e", "\x07"):
            assert mark not in shown.text, mark
    assert "&lt;script&gt;alert(1)" in one.text
    drawing = browser.get("/b/data/story.svg", message=number[1])
    assert drawing.headers["content-type"].startswith("image/svg+xml")
    assert "<script" not in drawing.text
    for name in ("<script>alert(1)</script>", "a\u202eb", "'; DROP TABLE x", "../../etc/passwd"):
        for target in ("queue", "messages"):
            shown = browser.get(f"/b/data/{target}", queue=name)
            assert "<script>alert" not in shown.text
            assert shown.status in (403, 404, 503)


def test_bodies_are_text_json_or_bytes(broker: BrokerProcess, visit: Visit, tmp_path: Path) -> None:
    browser = visit("ada")
    file = tmp_path / "body"
    file.write_bytes(bytes(range(256)) * 10)
    send(broker, "bodies", '{"a": {"b": [1, 2]}}')
    send(broker, "bodies", "[" * 100_000)
    send(broker, "bodies", file)
    page = browser.get("/b/data/messages", queue="bodies")
    shown = [
        browser.get("/b/data/message", queue="bodies", message=number)
        for number in dict.fromkeys(re.findall(r"message=(\d+)", page.text))
    ]
    assert "&#34;b&#34;: [\n" in shown[0].text
    assert "Piece 1 of 2." in shown[1].words
    assert "00000010  10 11 12 13" in shown[2].text
    command = command_on(shown[1])
    assert answer_of(command)["pieces"] == 2
    following = re.search(r'href="([^"]*piece=2[^"]*)"', shown[1].text)
    assert following
    rest = browser.get(unescape(following[1]))
    assert answer_of(command_on(rest))["body"] == "[" * (100_000 - 65_536)
    send(broker, "bodies", '<a><b x="1">t</b></a>')

    def ids() -> list[str]:
        shown = browser.get("/b/data/messages", queue="bodies")
        return list(dict.fromkeys(re.findall(r"message=(\d+)", shown.text)))

    number = wait_for(lambda: ids()[3:], "the message")[0]
    xml = browser.get("/b/data/message", queue="bodies", message=number)
    assert "&lt;a&gt;\n  &lt;b x=&#34;1&#34;&gt;" in xml.text
    assert "which has" not in xml.error
    gone = browser.get("/b/data/message", queue="bodies", message=1)
    assert gone.status == 404
    assert "daybook" not in gone.error
    words = [DAYBOOK, *command_on(xml)[1:]]
    said = nursery.run(words, capture_output=True, check=True, text=True).stdout
    assert '<a>\n  <b x="1">\n    t' in said


def test_a_line_of_ten_megabytes_costs_a_page_little(
    broker: BrokerProcess, visit: Visit, tmp_path: Path
) -> None:
    browser = visit("ada")
    file = tmp_path / "body"
    file.write_bytes(b"<b>" + b"x" * 10_000_000)
    send(broker, "long", file, "--header", f"wide={'<i>' * 3_000}")
    listed = browser.get("/b/data/messages", queue="long")
    [number, *_] = re.findall(r"message=(\d+)", listed.text)
    one = browser.get("/b/data/message", queue="long", message=number)
    assert re.search(r"Piece 1 of 1\d\d\.", one.words)
    story = browser.get("/b/data/story", message=number)
    for shown, most in ((listed, 40_000), (one, 1_000_000), (story, 40_000)):
        assert shown.status == 200
        assert len(shown.text) < most
        assert "<b>x" not in shown.text
        assert "<i>" not in shown.text


@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_a_large_body_is_read_by_pieces(protocol: str, tmp_path: Path, cleaned: ExitStack) -> None:
    body = "".join(f"{number}\u20ac<b>," for number in range(30_000))
    (tmp_path / "body").write_text(body, "utf-8")
    broker = cleaned.enter_context(
        BrokerProcess(tmp_path / "data", listen=(f"{protocol}://127.0.0.1:0",))
    )
    broker.start()
    url = f"{protocol}://guest:guest@127.0.0.1:{broker.ports[0]}"
    command = [DAYBOOK, "send", "large", "--file", str(tmp_path / "body"), "--url", url]
    done = nursery.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    console = cleaned.enter_context(ConsoleProcess(tmp_path, "--data", str(broker.data)))
    browser = Browser(console)
    browser.get(console.link)
    page = browser.get("/b/data/messages", queue="large")
    [number] = set(re.findall(r"message=(\d+)", page.text))
    shown = browser.get("/b/data/message", queue="large", message=number)
    found = ""
    for _ in range(100):
        text = re.search(r"<summary>text</summary><pre[^>]*>(.*?)</pre>", shown.text, re.DOTALL)
        assert text, shown.words
        found += unescape(text[1])
        following = re.search(r'href="([^"]*)">Next piece', shown.text)
        if not following:
            break
        shown = browser.get(unescape(following[1]))
    # A character that lies in two pieces is in neither text.
    assert found.replace("\u20ac", "") == body.replace("\u20ac", "")
    begin = re.search(r'href="([^"]*)">First piece', shown.text)
    assert begin
    assert "Piece 1 of" in browser.get(unescape(begin[1])).words
    link = re.search(r'href="([^"]*/message/body[^"]*)"', shown.text)
    assert link
    file = browser.get(unescape(link[1]))
    assert file.text == body
    assert file.headers["content-type"] == "application/octet-stream"
    assert file.headers["content-disposition"] == f'attachment; filename="message-{number}.bin"'
    assert file.headers["x-content-type-options"] == "nosniff"
    assert browser.get("/b/data/message/body", queue="large", message="1").status == 404


def test_a_form_does_what_its_command_does(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    made = browser.do("/b/data/do/queue/create", name="formed", max_consumers="3")
    assert "created queue 'formed'" in made.words
    assert re.search(r"Event \d+ · To the queues", made.words), made.words
    assert "<h1>Create a queue</h1>" in browser.get("/b/data/do/queue/create").text
    assert "<h1>Set settings</h1>" in browser.get("/b/data/do/settings/set").text
    long = f"a = '{'x' * 9000}'"
    given = {"name": "back", "max_consumers": "3", "exclusive": "yes", "filter": long}
    asked = browser.submit(browser.get("/b/data/do/queue/create"), **given)
    back = browser.submit(asked, back="yes")
    assert back.status == 200
    assert not back.error
    assert given.items() <= Form(back.text).fields.items()
    assert command_on(browser.submit(back)) == command_on(asked)
    assert "daybook queue create" in " ".join(command_on(made))
    send(broker, "formed", "x", "--count", "3")
    asked = browser.submit(browser.get("/b/data/do/queue/purge", queue="formed"))
    assert "queue formed has 3 messages, 0 in flight" in asked.words
    assert "ada from 127.0.0.1" in asked.words
    assert "purged queue 'formed': 3 messages removed" in browser.submit(asked).words
    wrong = browser.do("/b/data/do/queue/purge", queue="no such queue")
    assert "there is no queue" in wrong.error
    assert wrong.status == 404
    again = browser.do("/b/data/do/queue/create", name="formed")
    assert again.error
    shown = browser.submit(browser.get("/b/data/do/queue/update"), queue="formed")
    assert "name at least one attribute" in shown.error
    assert (
        "updated" in browser.do("/b/data/do/queue/update", queue="formed", max_consumers="5").words
    )
    done = browser.do(
        "/b/data/do/settings/set",
        match="formed",
        values="redelivery-delay=5s\nmax-delivery-attempts=2",
    )
    assert "max-delivery-attempts" in done.words
    assert "5000" in browser.get("/b/data/address", address="formed").words.replace(",", "")
    shown = browser.submit(browser.get("/b/data/do/settings/set"), match="formed", values="x")
    assert "is not KEY=VALUE" in shown.error
    shown = browser.submit(browser.get("/b/data/do/queue/remove"), queue="formed", message="x")
    assert shown.error == "message must be a whole number"
    for tag in ("queue", "address", "nothing"):
        shown = browser.get(f"/b/data/list/{tag}")
        assert shown.status == 404
        assert f"there is no list '{tag}'" in shown.error
    assert browser.get("/b/data/list/links", connection="x").error.startswith("connection must be")
    wait_for(lambda: _newest_by(broker).startswith("ada from 127.0.0.1:"), "the record")


def test_the_past_is_shown_as_it_was(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    send(broker, "then", "first", "--count", "2")
    [*_, routed] = [each for each in events(broker, "Routed") if each["queue_name"] == "then"]
    browser.do("/b/data/do/queue/purge", queue="then")
    now = browser.get("/b/data/messages", queue="then")
    then = browser.get("/b/data/messages", queue="then", at=routed["lsn"])
    assert "first" not in now.text
    assert then.text.count("first") == 2
    assert "as it was after event" in then.words
    [row] = [
        each
        for each in answer_of(["daybook", "queue", "list", "--data", str(broker.data)])
        if each["queue"] == "then"
    ]
    assert row["ready"] == 0
    shown = browser.get("/b/data/queue", queue="then", at=routed["lsn"])
    assert re.search(r"ready 2\b", shown.words)
    [first, _] = [each for each in events(broker, "Routed") if each["queue_name"] == "then"]
    assert re.search(rf"story\?message={first['lsn']}\W", shown.text)
    overview = browser.get("/b/data", at=routed["lsn"])
    assert (overview.status, "messages ready" in overview.words) == (200, True), overview.error
    assert "No problems" not in overview.words, "nobody looked for them"
    [leads] = re.findall(r'href="([^"]*)">Now</a>', shown.text)
    assert leads == "/b/data/queue?queue=then"
    story = browser.get("/b/data/story", message=first["lsn"], at=5)
    assert "as it was after event" not in story.words, "it has all of history"
    assert browser.get("/b/data/do/queue/purge", at=5).status == 400
    gone = browser.get("/b/data/go", time="2000-01-01T00:00:00")
    assert "the journal begins with event" in gone.error
    assert browser.get("/b/data/go", time="2100-01-01T00:00:00").status == 200
    assert "is not a time" in browser.get("/b/data/go", time="someday").error
    assert "is before all events" in browser.get("/b/data/go", time="1900-01-01").error
    assert "the journal begins" in browser.get("/b/data/go", time="yesterday").error
    for text in ("now", "today 23:59:59.999999 UTC", "0 minutes ago"):
        assert browser.get("/b/data/go", time=text).status == 200
    found = browser.get("/b/data/go", place=routed["time"] // 1000)
    assert re.search(r"Event (\d+), " + moment(routed["time"])[:23], found.words)
    assert "Event before" in found.words
    assert "Mark before" in found.words
    assert "asked: create queue" not in found.words or "{" not in found.words

    def asked_for() -> list[int]:
        found = events(broker, "Administered")
        return [each["lsn"] for each in found if each["lsn"] > routed["lsn"]]

    [purge, *_] = wait_for(asked_for, "the proof of the change")
    changed = browser.get("/b/data/compare", before=routed["lsn"], after=purge)
    assert re.search(r"ada from [0-9.:]+ asked: purge queue \(queue then\)", changed.words)
    answer_of(command_on(changed))


def test_the_past_does_not_know_what_no_event_has(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    now, then = browser.get("/b/data/list/queues"), browser.get("/b/data/list/queues", at=5)
    assert now.status == then.status == 200
    for path in (
        "rights", "list/users", "list/roles", "list/acceptors", "list/links", "list/sessions",
        "list/connectors", "list/auto-links", "list/retries", "do/queue/create",
    ):  # fmt: skip
        assert f"/b/data/{path}" in now.text, path
        assert f"/b/data/{path}" not in then.text, path
        if path.startswith("list/"):
            shown = browser.get(f"/b/data/{path}", at=5)
            assert (shown.status, "only a running broker" in shown.error) == (400, True), path
    # No rules in the journal does not mean that everybody may do everything.
    asked = {"user": "sam", "address": "stock", "permission": "browse"}
    assert "no: sam lacks browse" in browser.get("/b/data/rights", **asked).words
    shown = browser.get("/b/data/rights", **asked, at=5)
    assert (shown.status, "only a running broker" in shown.error) == (400, True)


def test_a_moment_ends_what_is_shown(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    send(broker, "moments", "x", "--count", "6")
    wait_for(lambda: len(events(broker, "Routed")) >= 6, "six events at least")
    shown = browser.get("/b/data/events", at=5)
    assert max(each["lsn"] for each in answer_of(command_on(shown))) == 5
    assert ">6<" not in shown.text
    for page in ("list/queues", "events", "past"):
        later = browser.get(f"/b/data/{page}", at=10**12)
        found = re.search(r"as it was after event (\d+)", later.words)
        assert found is not None, page
        assert int(found[1]) < 10**12, page
    compared = browser.get("/b/data/compare", before=5, after=10**12)
    assert str(10**12) not in compared.words


def test_events_and_stories_are_those_of_the_journal(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    send(broker, "told", "x")
    [*_, routed] = [each for each in events(broker, "Routed") if each["queue_name"] == "told"]
    story = browser.get("/b/data/story", message=routed["message"])
    *steps, end = answer_of(command_on(story))
    assert story.text.count('<li class="kind-') == len(steps)
    assert end["now"][0]["where"] in story.words
    shown = browser.get("/b/data/events", queue="told", kind="Routed")
    assert [each["lsn"] for each in answer_of(command_on(shown))] == [routed["lsn"]]
    assert str(routed["lsn"]) in shown.words
    assert "there never was the queue 'never'" in browser.get("/b/data/events", queue="never").error
    assert "no message 1" in browser.get("/b/data/story", message=1).error
    assert "must be a whole number" in browser.get("/b/data/story", message="x").error


def test_events_begin_with_the_newest_and_lead_to_all(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    send(broker, "newest", "x", "--count", "150")
    wanted = [each["lsn"] for each in events(broker, "Routed") if each["queue_name"] == "newest"]
    assert len(wanted) == 150

    def lsns(shown: Shown) -> list[int]:
        found = [int(each) for each in re.findall(r'at=(\d+)" title="the broker after', shown.text)]
        assert sorted(found) == [each["lsn"] for each in answer_of(command_on(shown))]
        return found

    def led(shown: Shown, text: str) -> Shown:
        [link] = re.findall(rf'href="([^"]*)">{text}</a>', shown.text)
        return browser.get(unescape(link))

    newest = browser.get("/b/data/events", queue="newest", kind="Routed")
    assert lsns(newest) == wanted[:49:-1]
    older = led(newest, "Older")
    assert lsns(older) == wanted[49::-1]
    assert ">Older<" not in older.text
    assert lsns(led(older, "Newest")) == wanted[:49:-1]
    first = led(older, "From the first")
    assert lsns(first) == wanted[:100]
    newer = led(first, "Newer")
    assert lsns(newer) == wanted[100:]
    assert lsns(led(newer, "Older")) == wanted[99::-1]
    then = browser.get("/b/data/events", queue="newest", kind="Routed", at=wanted[2])
    assert lsns(then) == wanted[2::-1]
    assert lsns(led(then, "From the first")) == wanted[:3]


def test_a_story_is_found_by_a_header(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    send(broker, "found", "x", "--header", "order=one of a kind")
    send(broker, "found", "x", "--header", "order=twice")
    send(broker, "found", "y", "--header", "order=twice")
    daybook(broker, "queue", "create", "elsewhere")
    daybook(broker, "queue", "move", "found", "elsewhere", "--filter", "order = 'twice'")
    story = browser.get("/b/data/story", header="order=one of a kind")
    assert re.search(r"Story of message \d+", story.words), "the only one is shown at once"
    assert answer_of(command_on(story))[0]["queue_name"] == "found"
    both = browser.get("/b/data/story", header="order=twice")
    told = answer_of(command_on(both))
    links = re.findall(r"/story\?message=(\d+)", both.text)
    assert [int(each) for each in links] == [
        each["message"] for each in told if each.get("kind") == "Routed" and not each["related"]
    ]
    for now in [each["where"] for end in told if "now" in end for each in end["now"]]:
        assert now in both.words
    assert "found, elsewhere" in both.words
    none = browser.get("/b/data/story", header="order=none")
    assert "There is no message with the header order=none" in none.words
    assert 'value="order=none"' in none.text
    pasted = browser.get("/b/data/story", header=" order = one of a kind\t")
    assert re.search(r"Story of message \d+", pasted.words)
    assert "like order=4711" in browser.get("/b/data/story", header="order").error
    assert "like order=4711" in browser.get("/b/data/story", header="=x").error


def test_only_what_applies_can_be_done(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    send(broker, "halted", "x")
    for kind in ("queue", "address"):
        for does, other in (("pause", "resume"), ("resume", "pause")):
            shown = browser.get(f"/b/data/{kind}", **{kind: "halted"})
            assert f"/do/{kind}/{does}?" in shown.text, kind
            assert f"/do/{kind}/{other}?" not in shown.text, kind
            browser.do(f"/b/data/do/{kind}/{does}", **{kind: "halted"})
    nowhere = browser.get("/b/data/address", address="not.there.yet")
    assert re.findall(r'class="button" href="/b/data/do/([a-z/]+)', nowhere.text) == [
        "settings/set", "settings/remove", "divert/create",
    ]  # fmt: skip
    _die(browser, broker, "slowly", "slow.grave")
    shown = browser.get("/b/data/queue", queue="slow.grave")
    assert "/do/queue/retry?" in shown.text
    assert "/do/queue/stop-retry?" not in shown.text, "none runs"
    browser.do("/b/data/do/queue/retry", queue="slow.grave", rate="1/h")
    assert "/do/queue/stop-retry?" in browser.get("/b/data/queue", queue="slow.grave").text


def _die(browser: Browser, broker: BrokerProcess, queue: str, grave: str) -> None:
    """Let two messages of a queue become dead letters."""
    given = f"max-delivery-attempts=1\ndead-letter-address={grave}"
    browser.do("/b/data/do/settings/set", match=queue, values=given)
    send(broker, queue, "x", "--count", "2")
    url = f"stomp://ada:ada@127.0.0.1:{broker.port}"
    command = [DAYBOOK, "receive", queue, "--reject", "--count", "2", "--url", url]
    done = nursery.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr


def test_a_long_name_is_folded_and_is_whole_beside(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    name = "department." * 20 + "eu"
    send(broker, name, "x")
    for page in (f"queue?queue={name}", f"address?address={name}", f"messages?queue={name}",
                 "list/queues"):  # fmt: skip
        shown = browser.get(f"/b/data/{page}")
        assert f'<span class="fold" title="{name}">{name}</span>' in shown.text, page


def test_what_changed_has_the_messages_that_were_dropped(
    broker: BrokerProcess, visit: Visit
) -> None:
    browser = visit("ada")
    before = events(broker)[-1]["lsn"]
    send(broker, "/topic/nobody.listens", "x", "--count", "3")
    after = wait_for(lambda: events(broker, "Dropped")[2:], "three messages")[-1]["lsn"]
    changed = browser.get("/b/data/compare", before=before, after=after)
    assert "Dropped messages" in changed.words
    assert "nobody.listens no-binding 3" in changed.words
    [told] = answer_of(command_on(changed))
    assert told["dropped"] == [
        {"address": "nobody.listens", "reason": "no-binding", "messages": 3}
    ]  # fmt: skip
    words = [JOURNAL, *command_on(changed)[1:]]
    text = nursery.run(words, capture_output=True, check=True, text=True).stdout
    assert re.search(r"nobody.listens +no-binding +3\n", text)


def test_stories_with_a_header_have_pages(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    send(broker, "leafed", "x", "--count", "25", "--header", "order=leafed")
    # The moved messages have the header, too, and belong to the stories of the first page.
    daybook(broker, "queue", "create", "turned")
    daybook(broker, "queue", "move", "leafed", "turned")
    [*wanted] = [each["lsn"] for each in events(broker, "Routed")
                 if each["queue_name"] == "leafed" and not each["related"]]  # fmt: skip
    first = browser.get("/b/data/story", header="order=leafed")
    [following] = re.findall(r'href="([^"]*)">Next</a>', first.text)
    second = browser.get(unescape(following))
    found = []
    for shown in (first, second):
        links = [int(each) for each in re.findall(r"/story\?message=(\d+)", shown.text)]
        told = answer_of(command_on(shown))
        began = [each for each in told if each.get("kind") == "Routed" and not each["related"]]
        assert [each["lsn"] for each in began] == links
        found += links
    assert found == wanted
    assert len(re.findall(r"/story\?message=", first.text)) == 20
    assert ">Next</a>" not in second.text


def test_who_changed_a_queue_is_found_from_its_page(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    send(broker, "changed", "x")
    browser.do("/b/data/do/queue/pause", queue="changed")
    page = browser.get("/b/data/queue", queue="changed")
    [link] = re.findall(r'href="([^"]*/events\?queue=[^"]*)">Events<', page.text)
    assert "dead-letters?queue=changed" in page.text
    said = r"QueuePaused .* asked for it; ada from [0-9.:]+ asked for it, by event \d+"
    wait_for(lambda: re.search(said, browser.get(link).words), "the proof of the request")
    shown = browser.get("/b/data/events", queue="changed", kind="Administered")
    [link] = re.findall(r'href="([^"]*)">the events that it caused<', shown.text)
    assert re.search(said, browser.get(unescape(link)).words)


def test_a_broker_that_dies_is_said_to_and_its_history_stays(
    tmp_path: Path, cleaned: ExitStack
) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        broker.start()
        console = cleaned.enter_context(ConsoleProcess(tmp_path, "--data", str(broker.data)))
        browser, operator = Browser(console), Browser(console)
        operator.get(console.link)
        browser.log_in("guest", "guest")
        browser.do("/b/data/do/queue/create", name="kept")
        broker.cut_power()
        wait_for(lambda: "no broker runs" in browser.get("/b/data").words, "the news")
        for each in (browser, operator):
            shown = each.get("/b/data/list/queues")
            assert "kept" in shown.words
            assert "No broker runs on" in shown.words
        refused = browser.do("/b/data/do/queue/purge", queue="kept")
        assert "no broker runs" in refused.error
        assert "did not send the request" in refused.error
        assert refused.status == 503
        assert "no broker runs" in Browser(console).log_in("guest", "guest").error
        broker.start()
        wait_for(lambda: "No problems" in browser.get("/b/data").words, "the return")
        assert "purged" in browser.do("/b/data/do/queue/purge", queue="kept").words


def test_a_broker_that_hangs_holds_up_its_own_pages_only(
    tmp_path: Path, cleaned: ExitStack
) -> None:
    brokers = [cleaned.enter_context(BrokerProcess(tmp_path / name)) for name in ("one", "two")]
    for each in brokers:
        each.start()
    config = tmp_path / "console.toml"
    config.write_text(
        "".join(
            f'[[broker]]\nname = "{each.data.name}"\ndata = "{each.data}"\n' for each in brokers
        )
    )
    console = cleaned.enter_context(ConsoleProcess(tmp_path, "--config", str(config)))
    browser = Browser(console)
    assert browser.get(console.link).words.count("running") <= 2
    guest = Browser(console)
    guest.log_in("guest", "guest", broker="one")
    browser.do("/b/one/do/queue/create", name="kept")
    asked = browser.submit(browser.get("/b/one/do/queue/purge"), queue="kept")
    brokers[0].send_signal(signal.SIGSTOP)
    try:
        hanging = browser.get("/b/one/list/queues")
        assert "did not answer" in hanging.error
        assert browser.get("/b/two/list/queues").status == 200
        assert browser.get("/b/one/past").status == 200
        # A page waits for the broker once, and the console did not send the form.
        for wait in (lambda: guest.get("/b/one/list/queues"), lambda: browser.submit(asked)):
            begun = time.monotonic()
            hanging = wait()
            assert hanging.status == 503
            assert "did not answer within 10 s" in hanging.error
            assert time.monotonic() - begun < READ_SECONDS * 1.8
        assert "did not send the request" in hanging.error
        for page in ("", "/past", "/events", "/docs"):
            begun = time.monotonic()
            assert guest.get(f"/b/one{page}").status == 200, page
            assert time.monotonic() - begun < READ_SECONDS, "it is known that nobody answers"
        assert "did not send the request" in guest.post("/b/one/do/queue/purge", {}).error
    finally:
        brokers[0].send_signal(signal.SIGCONT)
    wait_for(lambda: browser.get("/b/one/list/queues").status == 200, "the return")


def test_a_broker_elsewhere_is_asked_with_the_token_of_the_user(
    tmp_path: Path, cleaned: ExitStack
) -> None:
    listen = ("stomp://127.0.0.1:0", "control://127.0.0.1:0")
    broker = cleaned.enter_context(BrokerProcess(tmp_path / "data", listen=listen))
    from tests.interop.security.test_permissions import give_users  # noqa: PLC0415

    give_users(broker, {"ada": ()}, tokens=True)
    broker.start()
    config = tmp_path / "console.toml"
    url = f"control://127.0.0.1:{broker.ports[1]}"
    config.write_text(f'[[broker]]\nname = "far"\nurl = "{url}"\n')
    console = cleaned.enter_context(ConsoleProcess(tmp_path, "--config", str(config)))
    browser = Browser(console)
    assert "token is wrong" in browser.log_in("ada", "dbk_wrong").error
    token = (tmp_path / "ada").read_text().strip()
    assert "connections" in browser.log_in("ada", token).words
    assert "created queue" in browser.do("/b/far/do/queue/create", name="there").words
    shown = browser.get("/b/far/list/queues")
    assert "there" in shown.words
    assert command_on(shown)[3:5] == ["--url", url]
    assert "on another machine" in browser.get("/b/far/past").error
    wait_for(lambda: _newest_by(broker).startswith("ada from 127.0.0.1:"), "the record")
    overview = browser.get("/b/far")
    assert f"daybook status --url {url} --rates 60" in overview.words, "nobody samples it"
    assert token not in console.log_text() + console.said() + overview.text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names no broker"),
        ("[[broker]]\n", "a name has 1 to 64 letters"),
        ('[[broker]]\nname = "a"\n', "console.toml:1: name either the data directory"),
        ('[[broker]]\nname = "a"\ndata = "x"\nurl = "y"\n', "name either the data directory"),
        ('[[broker]]\nname = "a"\ndata = "x"\n[[broker]]\nname = "a"\ndata = "y"\n', "two brokers"),
        ('wrong = 1\n[[broker]]\nname = "a"\ndata = "x"\n', "console.toml:1: wrong is not known"),
        ('listen = "http://0.0.0.0:1"\n[[broker]]\nname = "a"\ndata = "x"\n', "others could read"),
        (
            'listen = "https://127.0.0.1:1"\n[[broker]]\nname = "a"\ndata = "x"\n',
            "needs certificate",
        ),
        ("[[broker]\n", "console.toml"),
        ('[[broker]]\nname = "a"\ndata = "z"\n', "z is not a directory"),
        ('[[broker]]\nname = "a"\nurl = "http://x"\n', "console.toml:1: 'http://x' is not the URL"),
        (f'{ONE}trusted-certificates = "none.pem"\n', "there is no file"),
        (f'{ONE}public-keys = ["none.pub"]\n', "public-keys names files"),
        (f'{ONE}anchors = "none"\n', "anchors must be a list of files"),
        (f"{ONE}archive = 1\n", "archive must be a text"),
        ('[[broker]]\nname = "a"\nurl = "control://x:1"\narchive = "b"\n', "archive is for checks"),
        (f'listen = "http://[::1:80"\n{ONE}', "is not where to listen"),
        (f'listen = "http://u:p@127.0.0.1:80"\n{ONE}', "is not where to listen"),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "y").mkdir()
    config = tmp_path / "console.toml"
    config.write_text(text)
    done = nursery.run(
        [DAYBOOK, "console", "--config", str(config)], capture_output=True, check=False, text=True
    )
    assert done.returncode == 1
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_a_mistake_keeps_the_menu_and_what_was_typed(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "typed", "x")
    browser = visit("ada")
    for query in ({}, {"at": 9_999_999}):
        gone = browser.get("/b/data/queue", queue="nowhere", **query)
        assert gone.status in (400, 404)
        assert gone.error
        assert 'href="/b/data/list/queues' in gone.text
    wrong = browser.get("/b/data/messages", queue="typed", filter="order = 1 AN")
    assert wrong.status == 400
    assert "the filter is wrong" in wrong.error
    assert 'name="filter" value="order = 1 AN"' in wrong.text
    assert "There are none" not in wrong.words
    [last] = events(broker, "Routed")[-1:] or [{"lsn": 9}]
    before = browser.get("/b/data/messages", queue="typed", filter="a =", at=last["lsn"])
    assert before.status == 400
    assert 'name="filter" value="a ="' in before.text
    for name, text in (("time", "someday"), ("time", "1900-01-01"), ("lsn", "many")):
        shown = browser.get("/b/data/go", **{name: text})
        assert shown.status == 400
        assert shown.error
        assert f'value="{text}"' in shown.text
        assert 'href="/b/data/past?at=' in shown.text


def test_dead_letters_are_grouped_and_retried(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    browser.do("/b/data/do/settings/set", match="dying", values="max-delivery-attempts=1")
    send(broker, "dying", "x", "--count", "3")
    url = f"stomp://ada:ada@127.0.0.1:{broker.port}"
    command = [DAYBOOK, "receive", "dying", "--reject", "--count", "2", "--url", url]
    done = nursery.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    asked = browser.get("/b/data/dead-letters")
    assert 'value="DLQ"' in asked.text
    shown = browser.get("/b/data/dead-letters", queue="DLQ", by="queue")
    assert '<svg class="bars"' in shown.text
    assert not re.search(r"Deaths by hour , (.*) to \1 UTC", shown.words)
    assert re.search(r"Deaths by hour , [\d-]+T?[ \d:]+(to .*)?UTC", shown.words)
    hours = browser.get("/b/data/dead-letters", queue="DLQ", by="hour")
    periods = answer_of(command_on(hours))["groups"]
    assert all(each["hour"] in hours.words for each in periods if each["hour"])
    link = re.search(r'href="([^"]*messages[?][^"]*_DEATH_TIME[^"]*)"', hours.text)
    assert link
    assert "There are none" not in browser.get(unescape(link[1])).words
    [group] = [each for each in answer_of(command_on(shown))["groups"] if each["queue"] == "dying"]
    assert group["messages"] == 2
    assert re.search(r"dying 2 \d{4}-", shown.words)
    link = re.search(r'href="(/b/data/do/queue/retry[^"]*dying[^"]*)"', shown.text)
    assert link
    slow = browser.do(unescape(link[1]), rate="1/m")
    assert "at most 1/m; the page Retries shows" in slow.words
    rows = answer_of(["daybook", "queue", "retries", "--data", str(broker.data)])
    [row] = [each for each in rows if each["queue"] == "DLQ"]
    assert (row["queue"], row["state"], row["acted"]) == ("DLQ", "running", 1)
    [there] = json.loads(daybook(broker, "queue", "show", "DLQ", "--json"))
    assert row["in_queue"] == there["messages"]
    assert '<a href="/b/data/list/retries">Retries</a>' in slow.text
    assert row["by"].startswith("ada from 127.0.0.1:")
    assert re.search(r"DLQ running stop 1/m", browser.get("/b/data/list/retries").words)
    assert "runs already" in browser.do("/b/data/do/queue/retry", queue="DLQ", rate="9").error
    assert "after 1 message" in browser.do("/b/data/do/queue/stop-retry", queue="DLQ").words
    form = browser.get("/b/data/do/queue/retry", queue="DLQ")
    assert "is not a rate" in browser.submit(form, rate="soon").error
    wrong = browser.submit(form, rate="1/s", message="1")
    assert "a rate is for retries of all messages" in wrong.error
    assert 'name="confirmed"' not in wrong.text
    assert "sent 1 message back" in browser.do(unescape(link[1])).words
    assert "by must be one of" in browser.get("/b/data/dead-letters", by="nonsense").error


def test_dead_letters_of_a_range_of_time_are_retried(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    _die(browser, broker, "early", "dated")
    between = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}"
    _die(browser, broker, "late", "dated")

    def groups(**span: str) -> tuple[Shown, list[tuple[str, int]]]:
        shown = browser.get("/b/data/dead-letters", queue="dated", by="queue", **span)
        found = re.findall(r'<td class="words">(\w+)</td><td class="number">(\d+)</td>', shown.text)
        told = answer_of(command_on(shown))["groups"]
        assert sorted(found) == sorted((each["queue"], str(each["messages"])) for each in told)
        return shown, [(name, int(count)) for name, count in found]

    assert groups()[1] == [("early", 2), ("late", 2)]
    assert groups(**{"from": "today", "to": between})[1] == [("early", 2)]
    assert groups(**{"from": "1 hour ago"})[1] == [("early", 2), ("late", 2)]
    assert not groups(**{"from": "2 days ago", "to": "1 day ago"})[1]
    shown, found = groups(**{"from": between})
    assert found == [("late", 2)]
    of_group = re.search(r'href="([^"]*/messages[?][^"]*late[^"]*)"', shown.text)
    of_all = re.search(r'this time: <a href="([^"]*/messages[?][^"]*)"', shown.text)
    retry = re.search(r'href="([^"]*/do/queue/retry[^"]*late[^"]*)"', shown.text)
    assert of_group
    assert of_all
    assert retry
    for link in (of_group, of_all):
        assert browser.get(unescape(link[1])).text.count('name="message"') == 2
    assert "sent 2 messages back" in browser.do(unescape(retry[1])).words
    assert groups()[1] == [("early", 2)]
    wrong = browser.get("/b/data/dead-letters", queue="dated", **{"from": "whenever"})
    assert (wrong.status, "is not a time" in wrong.error) == (400, True)
    assert 'value="whenever"' in wrong.text
    wrong = browser.get("/b/data/dead-letters", queue="dated", **{"from": "now", "to": "today"})
    assert "no time is from 'now' on and before 'today'" in wrong.error


def test_dead_letters_are_found_without_the_name_of_a_queue(
    broker: BrokerProcess, visit: Visit
) -> None:
    browser = visit("ada")
    _die(browser, broker, "dies.at.once", "graves.of.orders")
    send(broker, "DLQ", "dead")
    shown = browser.get("/b/data/dead-letters", by="queue")
    told = answer_of(command_on(shown))
    counts = {row["queue"]: row["messages"] for row in told}
    assert counts["graves.of.orders"] == 2
    assert list(counts.values()) == sorted(counts.values(), reverse=True)
    for name, count in counts.items():
        assert f'<option value="{name}">' in shown.text
        assert f"{name} {count:,} " in shown.words
        assert f'href="/b/data/dead-letters?queue={name}&amp;by=queue"' in shown.text
    waiting = sum(row["messages"] for row in told if "dead letters" in row["sent_here"])
    assert waiting == json.loads(daybook(broker, "status", "--json"))["dead_letters_waiting"]
    assert "dies.at.once" not in shown.words
    for name in counts.keys() - {"graves.of.orders"}:
        daybook(broker, "queue", "purge", name)

    def by_queue() -> Shown:
        return browser.get("/b/data/dead-letters", by="queue")

    # The console has an answer for two seconds.
    wait_for(lambda: re.search(r"dies.at.once 2 \d{4}-", by_queue().words), "the only one is open")
    shown = by_queue()
    assert shown.text.count("daybook queue dead-letters") == 1
    daybook(broker, "queue", "purge", "graves.of.orders")
    wait_for(lambda: "None of these queues has a message now" in by_queue().words, "none")
    early = browser.get("/b/data/dead-letters", at=5).words
    assert "No queue has dead letters or expired messages: no address exists" in early
    assert browser.get("/b/data/dead-letters", queue="DLQ", at=5).status == 400


def test_dead_letters_without_an_error_are_a_group_with_links(
    broker: BrokerProcess, visit: Visit
) -> None:
    browser = visit("ada")
    given = "max-delivery-attempts=1\ndead-letter-address=grave"
    browser.do("/b/data/do/settings/set", match="erring", values=given)
    browser.do("/b/data/do/queue/create", name="grave")
    send(broker, "grave", "alive")
    send(broker, "erring", "x", "--count", "2")
    url = f"stomp://ada:ada@127.0.0.1:{broker.port}"
    command = [DAYBOOK, "receive", "erring", "--reject", "--count", "2", "--url", url]
    done = nursery.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    shown = browser.get("/b/data/dead-letters", queue="grave", by="error")
    assert "(empty) 2 " in shown.words
    links = [unescape(each) for each in re.findall(r'href="([^"]*filter=[^"]*)"', shown.text)]
    [messages] = [each for each in links if each.startswith("/b/data/messages?")]
    [retry] = [each for each in links if each.startswith("/b/data/do/queue/retry?")]
    assert len(re.findall(r'name="message" value="\d+"', browser.get(messages).text)) == 2
    asked = browser.submit(browser.get(retry))
    assert "2 messages of queue grave match now." in asked.words
    assert "sent 2 messages back" in browser.submit(asked).words


def test_an_update_shows_what_there_is_and_can_empty_it(
    broker: BrokerProcess, visit: Visit
) -> None:
    browser = visit("ada")
    browser.do("/b/data/do/queue/create", name="narrow", filter="a < '<b>'", group_first_key="k")
    form = browser.get("/b/data/do/queue/update", queue="narrow")
    assert "filter make it empty: all of them Now: a < '<b>' Which messages" in form.words
    assert "max-consumers Now: -1 How" in form.words
    assert "enabled yes no Now: yes Whether" in form.words
    assert Form(form.text).fields["filter"] == ""
    wrong = browser.submit(form, filter="b = 1", **{"filter.empty": "yes"})
    assert "not both" in wrong.error
    assert "Now: a < '<b>'" in wrong.words
    asked = browser.submit(form, **{"filter.empty": "yes", "group_first_key.empty": "yes"})
    assert "queue narrow filter (empty) group-first-key (empty) The" in asked.words
    words = command_on(asked)
    assert words[3:7] == ["--filter", "", "--group-first-key", ""]
    back = browser.submit(asked, back="yes")
    assert command_on(browser.submit(back)) == words
    assert "updated queue 'narrow'" in browser.submit(asked).words
    form = browser.get("/b/data/do/queue/update", queue="narrow")
    assert "filter make it empty: all of them Now: (empty) Which messages" in form.words
    form = browser.get("/b/data/do/address/update", address="narrow")
    assert "Now: anycast" in form.words
    assert "<option selected>anycast</option><option>multicast</option>" in form.text
    given = browser.get("/b/data/do/address/update?address=narrow&routing_types=multicast")
    assert "<option>anycast</option><option selected>multicast</option>" in given.text
    assert "Now:" not in browser.get("/b/data/do/queue/update", queue="not there").words


def test_a_deletion_says_first_what_is_in_the_way(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    browser.do("/b/data/do/queue/create", name="bulk")

    def asked(place: str, **fields: str) -> Shown:
        form = browser.get(f"/b/data/do/{place}/delete", **{place: "bulk"})
        return browser.submit(form, **fields)

    assert "will refuse" not in asked("queue").words
    send(broker, "bulk", "x", "--count", "3")
    # The console keeps an answer for two seconds.
    why = "it has 3 messages, and is deleted with messages only by force; go back, and tick 'force'"
    wait_for(lambda: why in asked("queue").words, "the messages")
    assert "is not empty" in browser.submit(asked("queue")).error
    assert "it has 1 queue, and is deleted with queues only by" in asked("address").words
    forced = asked("address", force="yes")
    assert 'name="confirmed"' in forced.text
    assert "will refuse" not in forced.words
    assert "address bulk has 1 queue and 3 messages; everything in it is deleted" in forced.words
    assert (
        "queue bulk has 3 messages; everything in it is deleted"
        in asked("queue", force="yes").words
    )
    with Wire(broker.port) as wire:
        wire.connect(login="ada", passcode="ada")
        wire.send("SUBSCRIBE", id="s", destination="bulk", ack="client")
        wire.expect("MESSAGE")
        why = "The broker will refuse this as it is now: its 1 consumer is still there."
        wait_for(lambda: why in asked("queue", force="yes").words, "the consumer")
        forced = asked("address", force="yes")
        assert "address bulk has 1 queue, 3 messages and 1 consumer." in forced.words
        assert why in forced.words, "a broker deletes no address under its consumers"
        assert "has 1 consumers" in browser.submit(asked("queue", force="yes")).error
    wait_for(lambda: why not in asked("queue", force="yes").words, "its end")
    done = browser.submit(asked("queue", force="yes"))
    assert "deleted queue 'bulk': 3 messages removed" in done.words


def test_an_action_says_first_how_many_messages_it_concerns(
    broker: BrokerProcess, visit: Visit
) -> None:
    browser = visit("ada")
    for size in (1, 9, 9):
        send(broker, "sized", "x", "--header", f"size={size}")
    asked = browser.submit(
        browser.get("/b/data/do/queue/expire", queue="sized", filter="size = '9'")
    )
    assert "2 messages of queue sized match now." in asked.words
    assert "filter size = '9'" in asked.words
    listed = browser.get("/b/data/list/count", queue="sized", filter="size = '9'")
    count = answer_of(command_on(listed))
    assert (count[0]["matching"], count[0]["looked_at"]) == (2, 3)
    page = browser.get("/b/data/messages", queue="sized")
    ids = re.findall(r'type="checkbox" name="message" value="(\d+)"', page.text)
    assert len(ids) == 3
    chosen = "&".join(f"message={each}" for each in ids[1:])
    form = browser.get(f"/b/data/do/queue/remove?queue=sized&chosen=yes&{chosen}")
    asked = browser.submit(form)
    assert f"2 messages of queue sized: {ids[1]}, {ids[2]}." in asked.words
    words = command_on(asked)
    assert [each for each in words if each in ids] == ids[1:]
    assert "<dt>action" not in asked.text
    assert f"queue sized message {ids[1]}, {ids[2]} The" in asked.words
    back = browser.submit(asked, back="yes")
    assert Form(back.text).fields["message"].split() == ids[1:]
    assert command_on(browser.submit(back)) == words
    done = browser.submit(asked)
    assert "removed 2 messages" in done.words
    again = browser.do(f"/b/data/do/queue/remove?queue=sized&{chosen}")
    assert "2 messages: not in the queue any more" in again.words
    none = browser.get("/b/data/do/queue/remove?queue=sized&chosen=yes")
    assert "choose at least one message" in none.error


def test_rights_are_shown_with_their_rule(visit: Visit) -> None:
    browser = visit("ada")
    shown = browser.get("/b/data/rights", user="sam", address="orders.eu")
    assert re.search(r"manage yes sales orders\.#", shown.words), shown.words
    assert re.search(r"browse no orders\.#", shown.words), shown.words
    told = answer_of(command_on(shown))
    assert told["address"] == "orders.eu"
    assert visit("rea").get("/b/data/rights", user="sam", address="orders.eu").status == 403
