"""Logins, sessions and rights: the broker decides on them, whatever a browser sends."""

import re
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
import pytest

from daybook.client.control import ControlError, ask
from daybook.server.users.failures import FREE_FAILURES
from tests.interop.console.test_pages import command_on
from tests.interop.console.using import send
from tests.interop.security.test_permissions import give_users
from tests.interop.using import events, status
from tests.support import nursery
from tests.support.console import Browser, ConsoleProcess, Form
from tests.support.process import DAYBOOK, BrokerProcess, wait_for

pytestmark = pytest.mark.interop

Visit = Callable[[str], Browser]
PAGES = (
    "", "/list/queues", "/hour", "/live", "/past", "/story?message=1", "/do/queue/purge",
    "/integrity", "/integrity/live", "/report?name=x", "/sql?q=SELECT+1",
)  # fmt: skip


def test_a_stranger_sees_the_login_and_nothing_else(console: ConsoleProcess) -> None:
    browser = Browser(console)
    for page in PAGES:
        for broker in ("data", "other"):
            shown = browser.ask("GET", f"/b/{broker}{page}")
            assert shown.status == 303
            assert shown.headers["location"].startswith(f"/login?broker={broker}&next=")
    assert browser.get("/").words.startswith("Log in")
    assert browser.ask("GET", "/static/console.css").status == 200
    assert browser.ask("GET", "/static/../app.py").status == 404
    assert browser.ask("GET", "/static/%2e%2e/app.py").status == 404
    assert browser.post("/b/data/do/queue/purge", {"queue": "x"}).status == 303


def test_a_wrong_login_is_refused(console: ConsoleProcess) -> None:
    browser = Browser(console)
    for login, passcode in (("ada", "wrong"), ("nobody", "x"), ("guest", "guest")):
        shown = browser.log_in(login, passcode)
        assert shown.status == 403
        assert shown.error
        assert not browser.cookies
    assert "a login and a passcode are needed" in browser.log_in("ada", "").error


def test_wrong_logins_are_slowed_down_for_their_address_alone(
    tmp_path: Path, cleaned: ExitStack
) -> None:
    broker = cleaned.enter_context(BrokerProcess(tmp_path / "data"))
    give_users(broker, {"ada": ()})
    broker.start()
    console = cleaned.enter_context(ConsoleProcess(tmp_path, "--data", str(broker.data)))
    browser = Browser(console)
    guess = partial(browser.log_in, "ada", "wrong")
    threads = cleaned.enter_context(ThreadPoolExecutor(1))
    others = count(1)

    def others_are_first() -> bool:
        """Return whether three logins from elsewhere are answered while one guess waits."""
        waiting = threads.submit(guess)
        wait_for(lambda: status(broker)["logins_waiting"] or waiting.done(), "a guess that waits")
        for _ in range(3):
            asked = {"do": "log-in", "login": "ada", "passcode": "wrong"}
            with pytest.raises(ControlError):
                ask(broker.data, asked | {"peer": f"192.0.2.{next(others)}:1"})
        is_first = not waiting.done()
        assert waiting.result().status == 403
        return is_first

    for _ in range(FREE_FAILURES):
        assert guess().status == 403
    wait_for(others_are_first, "a delay")


def test_a_login_leads_back_to_the_page_that_was_asked_for(console: ConsoleProcess) -> None:
    browser = Browser(console)
    login = browser.get("/b/data/list/queues?search=x")
    shown = browser.submit(login, login="ada", passcode="ada")
    assert shown.headers["location"] == "/b/data/list/queues?search=x"
    for target in ("//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nb"):
        shown = browser.submit(login, login="ada", passcode="ada", next=target)
        assert shown.headers["location"] == "/b/data", target


def test_a_form_that_is_sent_after_the_session_is_over_keeps_its_fields(
    broker: BrokerProcess, visit: Visit
) -> None:
    send(broker, "over", "x")
    browser, text = visit("ada"), "a = 'ä' AND b = '<b>&%2f'"
    empty = browser.get("/b/data/do/queue/update")
    asked = browser.submit(empty, queue="over", max_consumers="3", filter=text)
    assert 'name="confirmed"' in asked.text
    browser.cookies.clear()
    login = browser.submit(asked).headers["location"]
    said = unquote(login)
    assert said.startswith("/login?broker=data&next=/b/data/do/queue/update?")
    assert not re.search("csrf|once|confirmed", said)
    form = browser.submit(browser.get(login), login="ada", passcode="ada")
    kept = Form(form.text).fields
    assert (kept["queue"], kept["max_consumers"], kept["filter"]) == ("over", "3", text)
    assert 'name="confirmed"' not in form.text, "only a person confirms it"
    [row] = ask(broker.data, {"do": "queue", "queue": "over"})["queues"]  # type: ignore[index]
    assert not row["filter"], "nothing was carried out"
    browser.cookies.clear()
    plain = "/login?broker=data&next=/b/data/do/queue/purge"
    long = browser.post("/b/data/do/queue/purge", {"queue": "x" * 5000})
    assert unquote(long.headers["location"]) == plain
    sent = {"Origin": "https://evil.example", "Content-Type": "application/x-www-form-urlencoded"}
    theirs = browser.ask("POST", "/b/data/do/queue/purge", "queue=over", sent)
    assert unquote(theirs.headers["location"]) == plain
    run = browser.post("/b/data/integrity/run", {"kind": "verify"})
    assert unquote(run.headers["location"]) == "/login?broker=data&next=/b/data/integrity"


def test_the_link_of_the_operator_works_once(
    broker: BrokerProcess, tmp_path: Path, cleaned: ExitStack
) -> None:
    console = cleaned.enter_context(ConsoleProcess(tmp_path, "--data", str(broker.data)))
    browser = Browser(console)
    assert "operator" in browser.get(console.link).words
    again = Browser(console)
    assert "this link was used" in again.get(console.link).error
    assert console.link not in console.log_text()
    quiet = cleaned.enter_context(ConsoleProcess(tmp_path, "--data", str(broker.data), link=False))
    assert "enter" not in quiet.said()


def test_a_session_ends_with_the_logout(visit: Visit) -> None:
    browser = visit("ada")
    assert browser.get("/b/data").status == 200
    before = dict(browser.cookies)
    browser.submit(browser.get("/b/data"))
    browser.cookies = before
    assert browser.get("/b/data").words.startswith("Log in")


def test_another_console_on_the_host_keeps_its_sessions(
    broker: BrokerProcess, visit: Visit, tmp_path: Path, cleaned: ExitStack
) -> None:
    """Browsers send a cookie to all ports of a host."""
    console = cleaned.enter_context(ConsoleProcess(tmp_path, "--data", str(broker.data)))
    browser, there = visit("ada"), Browser(console)
    there.cookies = browser.cookies
    assert there.log_in("rea", "rea").status == 200
    for each, user in ((browser, "ada"), (there, "rea")):
        assert user in each.get("/b/data").words
    there.submit(there.get("/b/data"))
    assert there.get("/b/data").words.startswith("Log in")
    assert browser.get("/b/data").status == 200
    assert not browser.get("/b/data").words.startswith("Log in")


def test_cookies_and_headers_keep_others_out(visit: Visit, console: ConsoleProcess) -> None:
    browser = Browser(console)
    shown = browser.submit(browser.get("/login"), login="ada", passcode="ada")
    cookie = shown.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    page = browser.get("/b/data")
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src")
    assert "unsafe" not in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["cache-control"] == "no-store"
    assert "server" not in page.headers
    for text in ("<script>", "<style", "onclick", "style="):
        assert text not in page.text


def test_a_form_needs_the_token_of_its_session(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "csrf", "x")
    browser, other = visit("ada"), visit("ada")
    form = browser.get("/b/data/do/queue/purge", queue="csrf")
    fields = {"queue": "csrf", "confirmed": "yes"}
    for wrong in ({}, {"csrf": ""}, {"csrf": "x" * 43}):
        shown = browser.post("/b/data/do/queue/purge", fields | wrong)
        assert shown.status == 403
        assert "not of your session" in shown.error
    theirs = other.submit(form, confirmed="yes")
    assert "not of your session" in theirs.error
    shown = browser.ask("POST", "/b/data/do/queue/purge", "", {"Origin": "https://evil.example"})
    assert "from another site" in shown.error
    assert ask(broker.data, {"do": "browse", "queue": "csrf"})["in_queue"] == 1  # type: ignore[index]


def test_a_name_that_a_stranger_gave_to_this_address_is_refused(
    visit: Visit, console: ConsoleProcess
) -> None:
    browser = visit("ada")
    for path in ("/b/data", "/static/console.css", "/login"):
        shown = browser.ask("GET", path, headers={"Host": "evil.example:8162"})
        assert shown.status == 421, path
        assert "not called 'evil.example:8162'" in shown.error
        assert "Queues" not in shown.text
    port = urlsplit(console.url).port
    assert browser.ask("GET", "/b/data", headers={"Host": f"localhost:{port}"}).status == 200


def test_forms_come_from_the_console_itself(visit: Visit) -> None:
    browser = visit("ada")
    own = f"127.0.0.1:{urlsplit(browser.url).port}"
    for origin, is_own in (
        (f"http://{own}", True), (f"https://{own}", True), ("null", False), ("", False),
        ("http://127.0.0.1", False), ("http://evil.example", False), (f"ftp://{own}", False),
    ):  # fmt: skip
        shown = browser.ask("POST", "/theme", "theme=dark", {"Origin": origin})
        assert shown.status == (303 if is_own else 403), origin


def test_static_files_are_sent_once(console: ConsoleProcess) -> None:
    browser = Browser(console)
    shown = browser.ask("GET", "/static/console.css")
    again = {"If-None-Match": f'"x", W/{shown.headers["etag"]}'}
    assert browser.ask("GET", "/static/console.css", headers=again).status == 304
    other = {"If-None-Match": '"x"'}
    assert browser.ask("GET", "/static/console.css", headers=other).text == shown.text


def test_a_form_that_never_arrives_is_not_logged(console: ConsoleProcess) -> None:
    place = urlsplit(console.url)
    head = f"POST /login HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: 100\r\n\r\nlogin="
    before = console.log_text()
    for said in (head, "nonsense\r\n\r\n"):
        with socket.create_connection((place.hostname, place.port or 0)) as line:
            line.sendall(said.encode())
            line.shutdown(socket.SHUT_WR)
            line.settimeout(30)
            while line.recv(4096):
                pass
    assert console.log_text() == before


def test_a_form_is_bounded(visit: Visit) -> None:
    browser = visit("ada")
    shown = browser.post("/b/data/do/queue/purge", {"queue": "x" * 70_000})
    assert shown.status == 413
    shown = browser.post("/b/data/do/queue/purge", {f"f{n}": "" for n in range(300)})
    assert shown.status == 400
    assert "a form has at most 200 fields" in shown.words


@pytest.mark.parametrize("body", ["queue=\xff", "queue=%ff"])
def test_a_form_that_is_no_text_is_refused_in_words(visit: Visit, body: str) -> None:
    sent = {"Content-Type": "application/x-www-form-urlencoded"}
    shown = visit("ada").ask("POST", "/b/data/do/queue/purge", body, sent)
    assert shown.status == 400
    assert "its text must be UTF-8" in shown.words
    assert "codec" not in shown.words


def test_a_reader_sees_and_changes_nothing(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "read-only", "secret")
    rea = visit("rea")
    assert "read-only" in rea.get("/b/data/list/queues").words
    assert "secret" in rea.get("/b/data/messages", queue="read-only").words
    assert "BrokerStarted" in rea.get("/b/data/past").words
    shown = rea.get("/b/data/do/queue/purge", queue="read-only")
    assert shown.status == 403
    assert shown.error == (
        "user 'rea' may not administer address 'read-only'; the permission manage is missing there"
    )
    assert 'name="queue"' not in shown.text
    for page, what in (
        ("queue?queue=read-only", "this queue, nor its messages"),
        ("address?address=read-only", "this address"),
        ("messages?queue=read-only", "the messages of this queue"),
    ):
        for browser, is_said in ((rea, True), (visit("ada"), False)):
            words = browser.get(f"/b/data/{page}").words
            assert (f"'rea' may not change {what}." in words) is is_said, page
            assert "may not change" in words or not is_said
    fields = Form(rea.get("/b/data").text).fields | {"queue": "read-only"}
    asked = rea.post("/b/data/do/queue/purge", fields)
    confirmed = rea.post("/b/data/do/queue/purge", fields | {"confirmed": "yes"})
    for refused in (rea.get(asked.headers["location"]), confirmed):
        assert refused.status in (403, 409)
        assert 'name="confirmed"' not in refused.text
    assert ask(broker.data, {"do": "browse", "queue": "read-only"})["in_queue"] == 1  # type: ignore[index]


def test_forms_are_offered_to_those_who_may_send_them(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "orders.offered", "x")
    send(broker, "offered", "x")
    pages = ("queue?queue={}", "address?address={}", "messages?queue={}", "dead-letters?queue={}")
    for login, name, offers in (
        ("ada", "offered", True), ("ada", "orders.offered", True), ("rea", "offered", False),
        ("sam", "orders.offered", True), ("sam", "offered", False),
    ):  # fmt: skip
        browser = visit(login)
        for page in pages:
            shown = browser.get(f"/b/data/{page.format(name)}")
            place = "/b/data/do/address/pause" if "address" in page else "/b/data/do/queue/move"
            is_seen = login != "sam" or name != "offered"
            assert (shown.status == 200) is is_seen, (login, page)
            wanted = offers and "dead-letters" not in page
            assert (place in shown.text) is wanted, (login, page)
    assert "do/settings/set" not in visit("sam").get("/b/data").text
    offered = re.findall(r'href="/b/data/([^"?/]+(?:/[^"?/]+)?)"', visit("sam").get("/b/data").text)
    lists = ["list/queues", "list/addresses", "list/retries"]
    assert set(offered) == {*lists, "dead-letters"}, "no page that would be refused"
    assert not any(each in visit("nil").get("/b/data").text for each in lists)
    queue = visit("sam").get("/b/data/queue", queue="orders.offered").text
    linked = re.findall(r'href="/b/data/((?:story|list)[^"?]*)', queue)
    assert set(linked) <= set(lists), "nor a link to one"
    assert "/b/data/story?message=" in visit("rea").get("/b/data/queue", queue="offered").text
    lists = visit("rea").get("/b/data").text
    assert "list/queues" in lists
    assert "list/users" not in lists
    told = "Users, roles and rights need the permission 'manage' for all addresses."
    seen = "Other lists and the history need the permission 'browse' for all addresses."
    for login, sentences in (("ada", []), ("rea", [told]), ("sam", [seen, told])):
        words = visit(login).get("/b/data").words
        assert [each for each in (seen, told) if each in words] == sentences, login
    for page in ("list/users", "list/roles", "rights"):
        refused = visit("rea").get(f"/b/data/{page}")
        assert refused.status == 403, page
        assert "manage" in refused.error, page
    assert "do/queue/create" in visit("nil").get("/b/data").text, "a rule lets everybody"
    assert "do/settings/set" in visit("ada").get("/b/data").text


def test_a_form_that_would_be_refused_is_not_shown(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "orders.formed", "x")
    send(broker, "formed.not", "x")
    for login, form, query, missing in (
        ("rea", "queue/pause", {"queue": "formed.not"}, "the permission manage is missing there"),
        ("rea", "queue/pause", {}, "needs the permission 'manage' for an address"),
        ("rea", "address/pause", {"address": "orders.formed"}, "'orders.formed'; the permission"),
        ("rea", "queue/delete", {"queue": "formed.not"}, "delete-durable-queue is missing"),
        ("rea", "connection/close", {"ids": "1"}, "'manage' for all addresses"),
        ("sam", "settings/set", {"match": "orders.#"}, "'manage' for all addresses"),
        ("sam", "queue/pause", {"queue": "formed.not"}, "the permission manage is missing there"),
        ("sam", "queue/pause", {"queue": "not.there"}, "the permission manage is missing there"),
    ):  # fmt: skip
        shown = visit(login).get(f"/b/data/do/{form}", **query)
        assert shown.status == 403, (login, form)
        assert f"user '{login}' may not" in shown.error
        assert missing in shown.error, (login, form)
        assert "Renew by itself" not in shown.words
    sam = visit("sam")
    moved = sam.submit(sam.get("/b/data/do/queue/pause"), queue="formed.not")
    assert moved.status == 403, "the name came with the form"
    assert "manage is missing" in moved.error
    for queue in ("orders.formed", "orders.not.there"):
        asked = sam.submit(sam.get("/b/data/do/queue/pause", queue=queue))
        assert 'name="confirmed"' in asked.text


def test_dead_letters_are_seen_by_who_may_browse_their_address(
    broker: BrokerProcess, visit: Visit
) -> None:
    send(broker, "orders.us", "x")
    send(broker, "elsewhere", "x")
    sam = visit("sam")
    assert "did not die" in sam.get("/b/data/dead-letters", queue="orders.us").words
    assert "sam" in sam.get("/b/data/dead-letters", queue="elsewhere").error
    given = "dead-letter-address=orders.dead\nexpiry-address=grave"
    visit("ada").do("/b/data/do/settings/set", match="orders.us", values=given)
    send(broker, "orders.dead", "x")
    send(broker, "grave", "x")
    shown = visit("ada").get("/b/data/dead-letters")
    assert {"orders.dead", "grave"} <= set(re.findall(r'<option value="([^"]*)">', shown.text))
    shown = sam.get("/b/data/dead-letters")
    assert 'name="queue"' in shown.text
    assert re.findall(r'<option value="([^"]*)">', shown.text) == ["orders.dead"]
    assert "did not die 1" in shown.words, "it is the only one"
    assert "grave" not in shown.text
    assert "You may see what fits orders.# , except" in sam.get("/b/data").words
    assert "You may see what fits" not in visit("nil").get("/b/data").words
    for page in ("hour", "past"):
        shown = visit("nil").get(f"/b/data/{page}")
        assert shown.status == 403, page
        assert "needs the permission 'browse' for all addresses" in shown.error
    shown = visit("nil").get("/b/data/dead-letters")
    assert "lacks the permission browse for its address" in shown.words
    assert "orders.dead" not in shown.text


def test_a_user_of_one_queue_finds_it(broker: BrokerProcess, visit: Visit) -> None:
    for name in ("books.day", "books.night"):
        create = [DAYBOOK, "queue", "create", f"books::{name}", "--data", str(broker.data)]
        nursery.run(create, capture_output=True, check=True)
        send(broker, f"books::{name}", f"in {name}")
    uno = visit("uno")
    listed = uno.get("/b/data/list/queues")
    assert re.findall(r"queue\?queue=([^\"]*)", listed.text) == ["books.day"]
    page = uno.get("/b/data/queue", queue="books.day")
    assert page.status == 200, page.error
    assert "Settings of its address" not in page.words
    assert "in books.day" in uno.get("/b/data/messages", queue="books.day").words
    assert uno.get("/b/data/queue", queue="books.night").status == 403
    assert "Settings of its address" in visit("rea").get("/b/data/queue", queue="books.day").words


def test_a_look_at_the_overview_is_not_recorded_as_a_refusal(
    broker: BrokerProcess, visit: Visit
) -> None:
    before = len(events(broker, "PermissionRefused"))
    for login in ("sam", "nil"):
        words = visit(login).get("/b/data").words
        assert "the overview needs the permission 'browse' for all addresses" in words
    assert len(events(broker, "PermissionRefused")) == before


def test_a_question_about_rights_is_answered_with_the_rule(
    broker: BrokerProcess, visit: Visit
) -> None:
    shown = visit("ada").get("/b/data/rights", user="rea", address="orders.eu", permission="browse")
    said = "yes: rea has browse at orders.eu, by the rule orders.#, as readers"
    assert said in shown.words
    done = nursery.run(
        [DAYBOOK, *command_on(shown)[1:]], capture_output=True, check=False, text=True
    )
    assert done.stdout.strip() == said, done.stderr
    nobody = visit("ada").get("/b/data/rights", user="nobody", address="a", permission="browse")
    assert "there is no user 'nobody'" in nobody.error
    assert visit("ada").get("/b/data/rights", user="rea", permission="x").status == 400
    assert visit("rea").get("/b/data/rights", user="rea", address="a").status == 403


def test_rights_are_those_of_an_address(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "orders.eu", "mine")
    send(broker, "stock", "not mine")
    sam = visit("sam")
    assert "mine" in sam.get("/b/data/messages", queue="orders.eu").words
    assert "sam" in sam.get("/b/data/messages", queue="stock").error
    for kind in ("queues", "addresses"):
        shown = sam.get(f"/b/data/list/{kind}", search="")
        assert "orders.eu" in shown.words
        assert "stock" not in shown.text
        assert "orders.eu" not in sam.get(f"/b/data/list/{kind}", search="stock").text
        assert visit("nil").get(f"/b/data/list/{kind}").status == 403
    for page in (
        "past", "events", "story?message=4", "story.svg?message=4", "hour", "integrity", "report",
    ):  # fmt: skip
        shown = sam.get(f"/b/data/{page}")
        assert shown.status in (403, 503), page
        assert "not mine" not in shown.text
    assert sam.get("/b/data/list/queues", at=5).status == 403
    assert "purged" in sam.do("/b/data/do/queue/purge?queue=orders.eu").words
    assert "'sam' may not" in sam.get("/b/data/do/queue/purge", queue="stock").error

    def who() -> list[str]:
        found = [str(each["detail"]["by"]) for each in events(broker, "Administered")]
        return [each for each in found if each.startswith("sam from 127.0.0.1:")]

    wait_for(who, "the record")


def test_a_user_that_was_removed_is_refused_at_once(tmp_path: Path, cleaned: ExitStack) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        give_users(broker, {"ada": (), "bob": ()})
        broker.start()
        console = cleaned.enter_context(ConsoleProcess(tmp_path, "--data", str(broker.data)))
        browser = Browser(console)
        assert "Queues" in browser.log_in("ada", "ada").words
        users = str(broker.directory / "users.toml")
        command = [DAYBOOK, "user", "remove", "ada", "--users-file", users]
        assert nursery.run(command, capture_output=True, check=False, text=True).returncode == 0
        broker.send_signal(signal.SIGHUP)
        wait_for(lambda: browser.get("/b/data/list/queues").status == 403, "the refusal")
        for page in ("", "/hour"):
            wait_for(lambda page=page: browser.get(f"/b/data{page}").status == 403, "the same")
        assert browser.get("/b/data/past").status == 403
        assert "there is no user 'ada'" in browser.do("/b/data/do/queue/purge?queue=x").error


def test_the_control_socket_gives_up_rights_and_gains_none(broker: BrokerProcess) -> None:
    place = broker.data / "control.sock"
    socket_path = next(broker.data.glob("*.sock"), place)
    with socket.socket(socket.AF_UNIX) as line, line.makefile("rb") as reader:
        line.connect(str(socket_path))

        def say(**request: str) -> dict[str, dict[str, str]]:
            line.sendall(msgspec.json.encode(request) + b"\n")
            told: dict[str, dict[str, str]] = msgspec.json.decode(reader.readline())
            return told

        assert "queues" in say(do="queues")["result"]
        assert say(do="act-as", user="nobody", peer="x:1")["error"]["code"] == "not-allowed"
        assert "queues" in say(do="queues")["result"], "still the operator"
        told = say(do="act-as", user="nil", peer="10.0.0.1:7")["result"]
        assert told == {"user": "nil", "sees": False, "manages": False}
        assert say(do="queues")["error"]["code"] == "not-allowed"
        assert say(do="purge-queue", queue="stock")["error"]["code"] == "not-allowed"
        assert say(do="act-as", user="ada", peer="10.0.0.1:7")["error"]["code"] == "invalid"
        assert say(do="queues")["error"]["code"] == "not-allowed"
        assert (
            say(do="log-in", login="ada", passcode="ada", peer="x:1")["error"]["code"] == "invalid"
        )


def test_no_number_harms_the_broker(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    for number in ("9" * 40, str(2**64 - 1), str(2**31), "9" * 5000, "-2"):
        shown = browser.submit(
            browser.get("/b/data/do/queue/create"), name="large", max_consumers=number
        )
        if 'name="confirmed"' in shown.text:
            shown = browser.submit(shown)
        assert shown.status == 400, number[:50]
        assert "must be" in shown.error
    for request in (
        {"do": "create-queue", "definition": {"name": "large", "max_consumers": 10**30}},
        {"do": "update-queue", "queue": "stock", "changes": {"max_consumers": 10**30}},
        {"do": "close-connections", "ids": [10**30]},
        {"do": "act-on-messages", "queue": "stock", "action": "remove", "message": 10**30},
        {"do": "queues", "offset": 10**30},
    ):
        with pytest.raises(ControlError):
            ask(broker.data, request)
    assert ask(broker.data, {"do": "queues", "search": "large"})["queues"] == []  # type: ignore[index]


def test_nothing_in_a_url_is_a_mistake_of_the_console(visit: Visit) -> None:
    browser = visit("ada")
    wild = ("", "-1", "0", "x", "9" * 30, "9" * 5000, "1e9", "\x00", "<b>", "\u202e", "%2f", "'")
    for page, names in (
        ("list/queues", ("at", "offset", "limit", "search", "sort", "descending")),
        ("list/nothing", ("x",)), ("queue", ("queue", "at")), ("address", ("address",)),
        ("messages", ("queue", "offset", "filter")), ("message", ("queue", "message")),
        ("story", ("message",)), ("story.svg", ("message",)), ("rights", ("user",)),
        ("events", ("from", "queue", "message", "kind", "connection")), ("past", ("at",)),
        ("sql", ("q", "chart")),
        ("go", ("lsn", "time")), ("compare", ("before", "after")),
        ("dead-letters", ("queue", "by")), ("do/queue/purge", ("queue",)),
        ("do/queue/nothing", ("x",)), ("integrity", ("at",)), ("report", ("name",)),
    ):  # fmt: skip
        for name in names:
            for value in wild:
                shown = browser.get(f"/b/data/{page}", **{name: value})
                assert shown.status in (200, 400, 403, 404), (page, name, value[:20], shown.error)
    for path in (
        "/static/" + "x" * 3000,
        "/static/%00",
        "/static/console.css%00",
        "/b//",
        "/b/%2f",
    ):
        assert browser.get(path).status in (200, 404), path[:40]
    empty = browser.submit(browser.get("/b/data/do/queue/create"), name="")
    assert "name is needed" in empty.error


def test_the_operator_is_journaled_with_the_place(
    broker: BrokerProcess, tmp_path: Path, cleaned: ExitStack
) -> None:
    console = cleaned.enter_context(ConsoleProcess(tmp_path, "--data", str(broker.data)))
    browser = Browser(console)
    browser.get(console.link)
    assert "created" in browser.do("/b/data/do/queue/create", name="by-operator").words

    def by() -> list[str]:
        found = [str(each["detail"]["by"]) for each in events(broker, "Administered")]
        return [each for each in found if ") from 127.0.0.1:" in each]

    [who] = wait_for(by, "the record")
    assert "(uid " in who


def test_an_address_is_found_by_its_name_without_rights_for_all(visit: Visit) -> None:
    shown = visit("sam").get("/b/data/address", address="orders.eu")
    assert shown.status == 200, shown.error


def test_a_login_is_asked_for_the_address_of_the_browser(broker: BrokerProcess) -> None:
    asked = {"do": "log-in", "login": "ada", "passcode": "ada", "peer": "192.0.2.7:1"}
    assert ask(broker.data, asked) == {"user": "ada"}
    with pytest.raises(ControlError):
        ask(broker.data, asked | {"passcode": "no"})
    refusals = [each for each in broker.lines() if each.get("event") == "login refused"]
    assert refusals[-1]["address"] == "192.0.2.7"


def test_slow_and_silent_browsers_are_closed(console: ConsoleProcess, visit: Visit) -> None:
    place = urlsplit(console.url)
    with ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection((place.hostname, place.port)))
            for _ in range(30)
        ]
        for number, each in enumerate(idle[:10]):
            each.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "[: 10 + number])
        assert visit("ada").get("/b/data").status == 200
        for each in idle:
            each.settimeout(60)
            assert each.recv(1000)[:20] in (b"", b"HTTP/1.1 408 Request", b"HTTP/1.1 400 Bad Re")


def test_pages_say_how_users_and_rules_are_changed(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    users = f"--users-file {broker.data / 'users.toml'}"
    for page, command, section in (
        ("list/users", f"daybook user add LOGIN --role ROLE {users}", "users"),
        ("list/roles", f"daybook user role LOGIN --add ROLE {users}", "users"),
        ("rights", "systemctl reload daybook", "permissions"),
    ):
        shown = browser.get(f"/b/data/{page}")
        assert f">{command}</code>" in shown.text, page
        assert "on SIGHUP" in shown.words
        assert f'href="/b/data/docs/security#{section}"' in shown.text
        assert f'id="{section}"' in browser.get("/b/data/docs/security").text
    assert "on SIGHUP" not in browser.get("/b/data/list/queues").words
