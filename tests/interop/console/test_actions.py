"""Actions: the offers of a page, the words of a confirmation, and that one is carried out once."""

import json
import re
from collections.abc import Callable
from contextlib import ExitStack
from html import unescape
from pathlib import Path

import pytest

from daybook.server.administration.deaths import LOOKED_AT_MAX
from tests.interop.console.test_pages import answer_of, command_on
from tests.interop.console.using import send
from tests.interop.using import connected, daybook, publish, run
from tests.interop.wire import Wire
from tests.support import nursery
from tests.support.console import Browser, ConsoleProcess, Form
from tests.support.process import DAYBOOK, BrokerProcess, wait_for

pytestmark = pytest.mark.interop

Visit = Callable[[str], Browser]


def test_a_connection_is_closed_from_each_row_that_names_it(
    broker: BrokerProcess, visit: Visit
) -> None:
    send(broker, "closing", "x")
    with Wire(broker.port) as wire:
        wire.connect(login="ada", passcode="ada", **{"client-id": "till-3"})
        wire.send("SUBSCRIBE", id="s", destination="closing", ack="client")
        wire.expect("MESSAGE")
        (row,) = json.loads(daybook(broker, "queue", "consumers", "closing", "--json"))
        link = f'href="/b/data/do/connection/close?ids={row["connection"]}"'
        browser, reader = visit("ada"), visit("rea")
        tags = ("connections", "links", "consumers")
        pages: dict[str, dict[str, str]] = {f"list/{tag}": {} for tag in tags}
        for path, query in {**pages, "queue": {"queue": "closing"}}.items():
            assert link in browser.get(f"/b/data/{path}", **query).text, path
            assert "do/connection/close" not in reader.get(f"/b/data/{path}", **query).text, path
        form = browser.get("/b/data/do/connection/close", ids=row["connection"])
        asked = browser.submit(form)
        assert (
            f"connection {row['connection']} of user 'ada', client id 'till-3', from {row['peer']},"
            " consumes from closing and holds 1 message; messages that they hold return to their"
            " queues, or go to the dead letter address if that was their last attempt."
        ) in asked.words
        assert "closed 1" in browser.submit(asked).words
    gone = browser.submit(browser.get("/b/data/do/connection/close"), ids=str(row["connection"]))
    assert "will refuse this as it is now: no connection matches" in gone.words
    for verb in ("pause", "retry", "update"):
        form = browser.get(f"/b/data/do/queue/{verb}")
        asked = browser.submit(form, queue="nowhere", max_consumers="1")
        assert "will refuse this as it is now: there is no queue 'nowhere'" in asked.words, verb


def test_the_question_is_a_page_with_what_was_given(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "question", "x")
    daybook(broker, "queue", "create", "question.more")
    browser = visit("ada")
    form = browser.get("/b/data/do/queue/move", queue="question")
    given = Form(form.text).fields | {"target": "question.more", "filter": "a = 'ä'"}
    answer = browser.post("/b/data/do/queue/move", given)
    assert answer.status == 303
    question = answer.headers["location"]
    assert "csrf" not in question
    for _ in range(2):
        asked = browser.get(question)
        assert "0 messages of queue question match now" in asked.words
    back = browser.post(Form(asked.text).action, Form(asked.text).fields | {"back": "yes"})
    kept = Form(browser.get(back.headers["location"]).text).fields
    assert (kept["target"], kept["filter"]) == ("question.more", "a = 'ä'")
    long = browser.post("/b/data/do/queue/move", given | {"filter": f"a = '{'x' * 4000}'"})
    assert long.status == 200, "too long for a URL"
    assert 'name="confirmed"' in long.text
    wrong = browser.get("/b/data/do/queue/move/confirm", queue="question")
    assert wrong.status == 400
    assert "target is needed" in wrong.error
    assert Form(wrong.text).action == "/b/data/do/queue/move"


def test_a_confirmation_is_good_once(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    send(broker, "once", "x")
    daybook(broker, "queue", "create", "once.more")
    form = browser.get("/b/data/do/queue/copy", queue="once", target="once.more")
    asked = Form(browser.submit(form).text)
    first, again = (browser.post(asked.action, asked.fields) for _ in range(2))
    assert first.status == again.status == 303
    assert first.headers["location"] == again.headers["location"]
    for _ in range(2):
        done = browser.get(first.headers["location"])
        assert "copied 1 message" in done.words
        assert "Back to queue once" in done.words
    [row] = json.loads(daybook(broker, "queue", "show", "once.more", "--json"))
    assert row["messages"] == 1
    late = browser.post(asked.action, asked.fields | {"once": "x"})
    assert late.status == 409
    assert "asked too long ago, and nothing was changed" in late.error
    assert visit("ada").get(first.headers["location"]).status == 404
    refused = Form(browser.submit(browser.get("/b/data/do/queue/delete"), queue="nowhere").text)
    errors = [browser.post(refused.action, refused.fields).error for _ in range(2)]
    assert errors[0] == errors[1]
    assert "nowhere" in errors[0]


def test_the_form_of_a_retry_proposes_rates(visit: Visit) -> None:
    shown = visit("ada").get("/b/data/do/queue/retry").text
    [name] = re.findall(r'name="rate"[^>]* list="([^"]+)"', shown)
    [listed] = re.findall(rf'<datalist id="{name}">(.*?)</datalist>', shown)
    assert '<option value="10/s">' in listed


def test_an_empty_list_of_retries_says_that_none_was_cut_off(visit: Visit) -> None:
    shown = visit("ada").get("/b/data/list/retries")
    assert "no retry runs, none has ended since the broker started, and its start cut none off" in (
        shown.words
    )


def test_a_filter_says_how_many_messages_were_looked_at(
    broker: BrokerProcess, visit: Visit
) -> None:
    browser = visit("ada")
    for size in (1, 9, 9):
        send(broker, "filtered", "x", "--header", f"size={size}")
    for size, fit in ((1, 1), (9, 2), (5, 0)):
        shown = browser.get("/b/data/messages", queue="filtered", filter=f"size = '{size}'")
        assert f"{fit} of the 3 messages looked at fit." in shown.words
        # The number of all of them is not that of these.
        assert 'class="count"' not in shown.text
    everything = browser.get("/b/data/messages", queue="filtered")
    assert "looked at" not in everything.words
    assert '<span class="count">3</span>' in everything.text


def test_a_limit_is_for_the_first_messages_that_match(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    for size in (1, 9, 9, 9):
        send(broker, "limited", "x", "--header", f"size={size}")
    for target in ("limited.some", "limited.others"):
        daybook(broker, "queue", "create", target)
    form = browser.get("/b/data/do/queue/move", queue="limited", filter="size = '9'")
    asked = browser.submit(form, target="limited.some", limit="2")
    assert "3 messages of queue limited match now; 2 at most are chosen" in asked.words
    done = browser.submit(asked)
    assert "moved 2 messages" in done.words
    assert "--limit 2" in done.words
    command = ("queue", "copy", "limited", "limited.others", "--filter", "size = '9'")
    assert "copied 1 message" in daybook(broker, *command, "--limit", "5")
    both = run(broker, "queue", "copy", "limited", "limited.others", "--limit", "1",
               "--message", "7")  # fmt: skip
    assert (both.returncode, "a limit is for all messages" in both.stderr) == (1, True)
    counts = {
        each["queue"]: each["messages"] for each in json.loads(daybook(broker, "queue", "list",
                                                                       "--json"))
    }  # fmt: skip
    assert (counts["limited"], counts["limited.some"], counts["limited.others"]) == (2, 2, 1)


def test_actions_that_cannot_apply_are_not_offered(broker: BrokerProcess, visit: Visit) -> None:
    browser, page = visit("ada"), "/b/data/queue"
    send(broker, "applies", "x")
    daybook(broker, "queue", "create", "applies.not")
    offered = browser.get("/b/data/queue", queue="applies").text
    assert "/do/queue/retry?" in offered
    for never in ("drain", "release", "deliver-scheduled"):
        assert f"/do/queue/{never}?" not in offered, never
    assert "list/shards" not in offered
    assert "/do/queue/retry?" not in browser.get("/b/data/queue", queue="applies.not").text
    with Wire(broker.port) as wire:
        wire.connect(login="ada", passcode="ada")
        head = b"SEND\ndestination:applies\nAMQ_SCHEDULED_DELAY:600000\nreceipt:r\n\n"
        wire.write(head + b"x\0")
        wire.expect("RECEIPT")
    wait_for(
        lambda: "/do/queue/deliver-scheduled?" in browser.get(page, queue="applies").text,
        "the button",
    )


def test_buttons_say_what_they_are_about(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "buttons", "x")
    shown = visit("ada").get("/b/data/address", address="buttons").text
    titles = re.findall(r'<li><a class="button" href="[^"]*">([^<]*)</a>', shown)
    assert titles[-4:] == ["delete", "set settings", "remove settings", "create divert"]


def test_a_list_refuses_a_column_that_it_does_not_sort_by(visit: Visit) -> None:
    wrong = visit("ada").get("/b/data/list/queues", sort="zzz")
    assert wrong.status == 400
    assert "sort must be one of " in wrong.error


def test_what_is_pressing_comes_first(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "halting", "x")
    daybook(broker, "queue", "pause", "halting")
    browser = visit("ada")
    queues = browser.get("/b/data/list/queues", search="halting")
    assert re.search(r">halting</a>\s*<span class=\"tag warn\">paused</span>", queues.text)
    with Wire(broker.port) as wire:
        wire.connect(login="ada", passcode="ada")
        wire.send("SUBSCRIBE", id="s", destination="halting.not", ack="client", receipt="r")
        wire.expect("RECEIPT")
        shown = browser.get("/b/data/list/consumers")
    headings = re.sub(r"<[^>]*>", "", shown.text.partition("<thead>")[2].partition("</thead>")[0])
    assert "queue in flight oldest in flight oldest in flight since" in " ".join(headings.split())


def test_a_retry_that_a_crash_cut_off_is_named_and_continues(
    tmp_path: Path, cleaned: ExitStack
) -> None:
    broker = cleaned.enter_context(BrokerProcess(tmp_path / "data"))
    broker.start()
    daybook(broker, "settings", "set", "orders", "max-delivery-attempts=1")
    with connected(broker) as wire:
        for _ in range(3):
            publish(wire, "/queue/orders", size="1")
    url = f"stomp://127.0.0.1:{broker.port}"
    words = [DAYBOOK, "receive", "orders", "--reject", "--count", "3", "--url", url]
    assert nursery.run(words, capture_output=True, check=False).returncode == 0
    daybook(broker, "queue", "retry", "DLQ", "--rate", "1/h", "--filter", "size = '1'")
    wait_for((broker.data / "retries.json").exists, "the file of retries")
    broker.kill()
    broker.start()
    console = cleaned.enter_context(ConsoleProcess(tmp_path, "--data", str(broker.data)))
    browser = Browser(console)
    browser.get(console.link)
    shown = browser.get("/b/data/list/retries")
    assert "cut off" in shown.words
    assert "the broker ended before; the rest is in the queue" in shown.words
    [row] = json.loads(daybook(broker, "queue", "retries", "--json"))
    assert (row["state"], row["acted"], row["in_queue"]) == ("cut off", 1, 2)
    assert (row["at_least"], row["of"]) == (True, None)
    assert "at least 1" in shown.words
    link = unescape(re.findall(r'href="([^"]*do/queue/retry[^"]*)"', shown.text)[0])
    asked = browser.submit(browser.get(link))
    assert "2 messages of queue DLQ match now" in asked.words
    browser.submit(asked)
    states = [each["state"] for each in json.loads(daybook(broker, "queue", "retries", "--json"))]
    assert states == ["running"]


def test_each_message_leads_to_its_story(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "orders.led", "x", "--count", "2")
    shown = visit("ada").get("/b/data/messages", queue="orders.led")
    numbers = re.findall(r'name="message" value="(\d+)"', shown.text)
    assert len(numbers) == 2
    for number in numbers:
        [link] = re.findall(
            rf'href="([^"]*)" aria-label="What happened to message {number}"', shown.text
        )
        assert f"Story of message {number}" in visit("ada").get(unescape(link)).words
    without = visit("sam").get("/b/data/messages", queue="orders.led").text
    assert f'name="message" value="{numbers[0]}"' in without
    assert "What happened" not in without, "this user may not see the history"


def test_a_large_queue_is_looked_at_part_by_part(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "crowded", "x", "--count", str(LOOKED_AT_MAX + 7))
    browser = visit("ada")
    first = browser.get("/b/data/dead-letters", queue="crowded", by="queue")
    assert "These are the first 10,000 of 10,007 messages." in first.words
    [further] = re.findall(r'href="([^"]*)">Look further</a>', first.text)
    rest = browser.get(unescape(further))
    assert "These are the 7 messages after the first 10,000, of 10,007." in rest.words
    told = answer_of(command_on(rest))
    assert [each["messages"] for each in told["groups"]] == [7]
    assert (told["left"], told["next_offset"]) == (0, None)
    assert "Look further" not in rest.words
    [back] = re.findall(r'href="([^"]*)">From the first</a>', rest.text)
    assert "the first 10,000" in browser.get(unescape(back)).words
    summed = browser.get(
        unescape(*re.findall(r'href="([^"]*)">Add up the whole queue<', first.text))
    )
    assert "These are the first 10,000 of 10,007 messages; the others are being added." in (
        summed.words
    )
    told = answer_of(command_on(summed))
    assert [each["messages"] for each in told["groups"]] == [LOOKED_AT_MAX + 7]
    assert (told["left"], told["in_other_groups"]) == (0, 0)
    [stream] = re.findall(r'sse-connect="([^"]*)"', summed.text)
    sent = browser.get(unescape(stream)).text
    assert "These are all 10,007 messages, added up." in sent
    assert '<td class="number">10,007</td>' in sent
    assert sent.endswith("event: over\ndata: \n\n")
    assert visit("nil").get(unescape(stream)).status == 403
    said = nursery.run(
        [DAYBOOK, "queue", "messages", "crowded", "--limit", "5", "--offset", "3",
         "--data", str(broker.data)],
        capture_output=True, check=True, text=True,
    ).stderr  # fmt: skip
    assert "9,999 messages more, which this did not look at: --offset 8" in said


def test_enter_alone_destroys_nothing(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "endangered", "x")
    browser = visit("ada")
    given = {"queue": "endangered"}
    for verb, is_danger in (("purge", True), ("pause", False)):
        asked = browser.submit(browser.get(f"/b/data/do/queue/{verb}"), **given)
        danger = '<button class="main danger">'
        label = f"{verb.capitalize()} queue endangered</button>"
        assert (f"{danger}{label}" in asked.text) == is_danger
        assert (f'<button class="main" autofocus>{label}' in asked.text) != is_danger
        assert ('value="yes" autofocus>Back' in asked.text) == is_danger
    for target, is_wrong in (("nowhere", True), ("endangered.too", False)):
        if not is_wrong:
            send(broker, target, "x")
        asked = browser.submit(browser.get("/b/data/do/queue/move"), **given, target=target)
        assert ("The broker will refuse this as it is now" in asked.words) == is_wrong
        assert ("'nowhere'" in asked.words) == is_wrong
