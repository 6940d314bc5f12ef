"""Integrity in the console: reports, and checks that run long, are cancelled, and never stay."""

import os
import re
import shlex
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from daybook.history.reports.report_files import listed
from daybook.journal.data_directory import JOURNAL, REPORTS
from daybook.recovery.signing.signing_keys import make_pair
from tests.interop.console.conftest import RULES, USERS
from tests.interop.console.test_pages import answer_of, command_on
from tests.interop.console.using import (
    history_without_broker,
    make_hang,
    segments,
    send,
)
from tests.interop.security.test_permissions import give_users
from tests.interop.using import connected, sent
from tests.support import nursery
from tests.support.console import Browser, ConsoleProcess, Shown
from tests.support.process import JOURNAL as JOURNAL_COMMAND
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

Visit = Callable[[str], Browser]
PAGE = "/b/data/integrity"
SIGNED = """
[journal]
signing-key = "{key}"
anchors = ["file:{anchors}"]
checkpoint-period = "100ms"
segment-bytes = "64KiB"
retention-scan-period = 100
retention-max-bytes = "200KiB"
archive-directory = "{archive}"
"""
PROOFS = """
[[broker]]
name = "data"
data = "{data}"
archive = "archive"
public-keys = ["keys/key.pem.pub"]
anchors = ["anchors"]
"""
SAID = (
    r"signed up to event [1-9]\d*, .* by the key", r"anchored up to event [1-9]",
    r"archive \S+/archive: up to event [1-9]\d*; the [1-9][\d,]* events since then",
)  # fmt: skip


def run(browser: Browser, **fields: str) -> Shown:
    """Send a form of the page, and return where it leads."""
    token = re.search(r'name="csrf" value="([^"]*)"', browser.get(PAGE).text)
    assert token
    answer = browser.post(f"{PAGE}/run", {"csrf": token[1], **fields})
    return browser.get(answer.headers["location"]) if "location" in answer.headers else answer


def finished(browser: Browser) -> Shown:
    """Return the page when no check runs any more."""

    def look() -> Shown | None:
        shown = browser.get(PAGE)
        assert shown.status == 200, shown.error
        return None if "is running" in shown.words else shown

    found = wait_for(look, "the end of the check")
    assert isinstance(found, Shown)
    return found


def newest_report(shown: Shown) -> str:
    """Return the path of the report that a check of the page made."""
    found = re.search(r'href="(/b/data/report\?name=[\w-]+)">The report', shown.text)
    assert found, shown.words
    return found[1]


def in_session_of(console: ConsoleProcess) -> set[int]:
    """Return the processes that a console has started, and itself."""
    found = set()
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                fields = (each / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            # The session, and no zombie.
            if int(fields[3]) == console.process.pid and fields[0] != "Z":
                found.add(int(each.name))
    return found


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A data directory without a broker, with several segments."""
    return history_without_broker(tmp_path)


@pytest.fixture
def beside(history: Path, tmp_path: Path) -> Iterator[ConsoleProcess]:
    """A console for a data directory without a broker."""
    with ConsoleProcess(tmp_path, "--data", str(history)) as made:
        yield made
        assert "Traceback" not in made.log_text()


@pytest.fixture
def operator(beside: ConsoleProcess) -> Browser:
    browser = Browser(beside)
    browser.get(beside.link)
    return browser


def test_a_check_leaves_the_report_that_its_command_shows(
    broker: BrokerProcess, visit: Visit
) -> None:
    send(broker, "checked", "x", "--count", "3")
    browser = visit("ada")
    for fields in (
        {"kind": "verify", "scope": "whole"},
        {"kind": "verify", "scope": "resume", "index": "yes"},
        {"kind": "audit", "from": ""},
        {"kind": "audit", "from": "1"},
    ):
        run(browser, **fields)
        shown = finished(browser)
        report = browser.get(newest_report(shown))
        assert report.status == 200
        [told] = answer_of(command_on(report))
        assert told["ok"], told
        assert told["by"].startswith("ada from 127.0.0.1:")
        assert told["result"] in report.words
        for words in (told["command"], *(str(fact[1]) for fact in told["facts"])):
            assert words in report.words
        assert (" --index --resume" in told["command"]) == ("index" in fields)
        assert ("--from 1" in told["command"]) == (fields.get("from") == "1")
        [all_of_it] = answer_of(command_on(shown))
        for each in all_of_it["reports"]:
            assert each["name"] in shown.text
            assert each["result"] in shown.words
    assert "accounted for" in browser.get(PAGE).words
    assert browser.get("/b/data/report", name="x").status == 400
    assert run(browser, kind="other").status == 400
    assert run(browser, kind="audit", **{"from": "x"}).status == 400
    behind = run(browser, kind="verify", **{"from": "9" * 18})
    assert behind.status == 400
    assert re.search(r"the last event is \d+: there is nothing to check from 9+ on", behind.error)
    run(browser, kind="audit", **{"from": "9" * 18})
    assert "ended without a result: there is no event after" in finished(browser).words


def test_signatures_that_are_not_there_are_said(visit: Visit) -> None:
    words = visit("rea").get(PAGE).words
    assert "History is not signed" in words
    assert "There are no anchors" in words
    assert "No segment is archived" in words


def test_who_may_not_manage_looks_and_begins_nothing(tmp_path: Path, cleaned: ExitStack) -> None:
    small = ["journal.segment-bytes=64KiB"]
    broker = cleaned.enter_context(BrokerProcess(tmp_path / "data", config=RULES, settings=small))
    give_users(broker, USERS)
    broker.start()
    while len(segments(broker.data)) < 4:
        send(broker, "a", "x" * 10_000, "--count", "10")
    console = cleaned.enter_context(ConsoleProcess(tmp_path, "--data", str(broker.data)))
    browsers = {name: Browser(console) for name in USERS}
    for name, browser in browsers.items():
        browser.log_in(name, name)
    assert browsers["nil"].get(PAGE).status == 403
    assert browsers["sam"].get(PAGE).status == 403
    shown = browsers["rea"].get(PAGE)
    assert ">Verify</button>" not in shown.text
    why = "user 'rea' may not begin or cancel a check; that needs the permission 'manage' for all"
    assert f"no button for a verification or an audit, because {why} addresses." in shown.words
    assert "no button" not in browsers["ada"].get(PAGE).words
    for path in ("run", "cancel"):
        token = re.search(r'name="csrf" value="([^"]*)"', browsers["rea"].get("/b/data").text)
        assert token
        fields = {"csrf": token[1], "kind": "verify"}
        refused = browsers["rea"].post(f"{PAGE}/{path}", fields)
        assert refused.status == 403
        assert "may not begin or cancel" in refused.error
        assert browsers["ada"].post(f"{PAGE}/{path}", fields).status == 403, "another's token"
    # Only now: the broker has read its segments.
    make_hang(cleaned, broker.data)
    assert "is running, begun by ada from" in run(browsers["ada"], kind="verify").words
    again = run(browsers["ada"], kind="audit")
    assert again.status == 409
    assert "a check of data is running" in again.error
    assert "begun by ada from" in again.error
    assert "is running, begun by ada from" in browsers["rea"].get(PAGE).words
    assert browsers["rea"].post(f"{PAGE}/cancel", {"csrf": "x"}).status == 403
    # Two others have their places for short jobs meanwhile.
    assert browsers["rea"].get("/b/data/list/queues").status == 200
    browsers["ada"].submit(_cancel_form(browsers["ada"]))
    assert "cancelled by ada from" in browsers["rea"].get(PAGE).words
    assert "Traceback" not in console.log_text()


def _cancel_form(browser: Browser) -> Shown:
    """Return the page with its form for cancelling alone."""
    shown = browser.get(PAGE)
    [form] = re.findall(r"<form[^>]*integrity/cancel.*?</form>", shown.text, re.DOTALL)
    return shown._replace(text=form)


def test_a_check_is_cancelled_in_the_middle(
    history: Path, beside: ConsoleProcess, operator: Browser, cleaned: ExitStack
) -> None:
    make_hang(cleaned, history, number=2)
    run(operator, kind="verify")
    shown = wait_for(
        lambda: shown if re.search(r"[1-9]\d* %", (shown := operator.get(PAGE)).words) else None,
        "progress",
    )
    assert isinstance(shown, Shown)
    assert "read and folded" in shown.words
    before = in_session_of(beside)
    operator.submit(_cancel_form(operator))
    assert "cancelled by operator from" in operator.get(PAGE).words
    wait_for(lambda: len(in_session_of(beside)) < len(before), "the end of its process")
    assert not listed(history)
    shutil.rmtree(history / JOURNAL)
    run(operator, kind="verify")
    assert "ended without a result" in finished(operator).words


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_check_outlives_its_console(
    history: Path,
    tmp_path: Path,
    how: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
    cleaned: ExitStack,
) -> None:
    # A short name: sockets of processes lie there, too.
    scratch = Path(cleaned.enter_context(TemporaryDirectory(prefix="c-", dir="/tmp")))
    monkeypatch.setenv("TMPDIR", str(scratch))
    with ConsoleProcess(tmp_path, "--data", str(history)) as console:
        browser = Browser(console)
        browser.get(console.link)
        make_hang(cleaned, history)
        run(browser, kind="verify")
        wait_for(lambda: list(scratch.glob("daybook-check-*")), "its temporary folder")
        os.kill(console.process.pid, how)
        console.process.wait(60)
        wait_for(lambda: not in_session_of(console), "the end of all processes")
        assert not list(scratch.glob("daybook-check-*"))


def test_damage_is_found_and_leads_to_its_event(history: Path, operator: Browser) -> None:
    place = segments(history)[1]
    content = bytearray(place.read_bytes())
    content[len(content) // 2] ^= 1
    place.write_bytes(content)
    run(operator, kind="verify")
    shown = finished(operator)
    [told] = answer_of(command_on(shown))
    [newest] = told["newest"]
    assert not newest["ok"]
    assert newest["result"] in shown.words
    for finding in newest["first_findings"]:
        assert finding["what"] in shown.words
    lsn = newest["first_findings"][0]["lsn"]
    assert f'/b/data/events?from={lsn}"' in shown.text
    assert operator.get("/b/data/events", **{"from": lsn}).status in (200, 400)
    report = operator.get(newest_report(shown))
    assert report.status == 200
    assert newest["first_findings"][0]["what"] in report.words
    run(operator, kind="audit")
    assert re.search(r"ended without a result|accounted for|breach", finished(operator).words)


def test_a_damaged_report_is_said_and_the_others_are_shown(
    history: Path, operator: Browser
) -> None:
    for _ in range(2):
        run(operator, kind="verify")
        finished(operator)
    file = max((history / REPORTS).glob("*.json"))
    file.write_bytes(file.read_bytes().replace(b"intact", b"intakt"))
    shown = operator.get(PAGE)
    assert "This report cannot be read: its content is damaged" in shown.words
    assert "intact" in shown.words
    assert "its content is damaged" in operator.get("/b/data/report", name=file.stem).error


def test_a_directory_without_a_journal_is_no_mistake(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with ConsoleProcess(tmp_path, "--data", str(data)) as console:
        browser = Browser(console)
        browser.get(console.link)
        assert "is not a data directory" in browser.get(PAGE).error
        for kind in ("verify", "audit"):
            run(browser, kind=kind)
            assert "is not a data directory" in finished(browser).words
        (data / JOURNAL).mkdir()
        assert "there is no journal" in browser.get(PAGE).error
        assert not list(data.glob(REPORTS))
        assert "Traceback" not in console.log_text()


def test_only_the_operator_begins_checks_while_no_broker_runs(
    tmp_path: Path, cleaned: ExitStack
) -> None:
    broker = cleaned.enter_context(BrokerProcess(tmp_path / "data"))
    broker.start()
    console = cleaned.enter_context(ConsoleProcess(tmp_path, "--data", str(broker.data)))
    browser, operator = Browser(console), Browser(console)
    operator.get(console.link)
    browser.log_in("guest", "guest")
    broker.cut_power()
    refused = run(browser, kind="verify")
    assert refused.status == 503
    assert "the operator may" in refused.error
    run(operator, kind="verify")
    assert "intact" in finished(operator).words
    assert "not known: no broker runs" in browser.get(PAGE).words


def test_how_far_history_is_signed_anchored_and_archived_is_said(
    tmp_path: Path, cleaned: ExitStack
) -> None:
    key = tmp_path / "keys" / "key.pem"
    key.parent.mkdir()
    make_pair(key)
    config = SIGNED.format(key=key, anchors=tmp_path / "anchors", archive=tmp_path / "archive")
    broker = cleaned.enter_context(BrokerProcess(tmp_path / "data", config=config))
    broker.start()
    file = tmp_path / "console.toml"
    file.write_text(PROOFS.format(data=broker.data), "utf-8")
    console = cleaned.enter_context(ConsoleProcess(tmp_path, "--config", str(file)))
    browser = Browser(console)
    browser.get(console.link)
    number = iter(range(10_000))

    def look() -> bool:
        with connected(broker) as wire:
            sent(wire, "/topic/nobody", Random(next(number)).randbytes(10_000))
        shown = browser.get(PAGE)
        assert shown.status == 200, shown.error
        return all(re.search(each, shown.words) for each in SAID)

    wait_for(look, "signatures, anchors and an archive")
    assert "not signed" not in browser.get(PAGE).words
    _check_by_proofs(browser, tmp_path)


def _check_by_proofs(browser: Browser, path: Path) -> None:
    """Check with the archive, keys and anchors that the console knows, and no others."""
    every = {"archive": "/elsewhere", "keys": "/etc/shadow", "anchors": "/etc/passwd"}
    key = path / "keys" / "key.pem.pub"
    proofs = ["--archive", path / "archive", "--public-key", key, "--anchor", path / "anchors"]
    run(browser, kind="verify", scope="whole", **every)
    report = browser.get(newest_report(finished(browser)))
    [told] = answer_of(command_on(report))
    assert told["ok"], told
    assert shlex.split(told["command"])[4:] == list(map(str, proofs))
    facts = dict(told["facts"])
    assert facts["events"].startswith("1 to ")
    assert facts["signed"].startswith("up to event ")
    assert facts["anchored"].startswith("up to event ")
    done = nursery.run(
        [JOURNAL_COMMAND, *shlex.split(told["command"])[1:]],
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "signed up to event" in done.stdout
    refused = run(browser, kind="verify", scope="resume", **{"from": "5"})
    assert refused.status == 400
    assert "--resume remembers the state that all events give" in refused.words
    run(browser, kind="verify", keys="yes", anchors="yes", **{"from": facts["events"].split()[-1]})
    [told] = answer_of(command_on(browser.get(newest_report(finished(browser)))))
    assert told["ok"], told
    assert shlex.split(told["command"])[4:] == [
        "--from", facts["events"].split()[-1], *map(str, proofs[2:]),
    ]  # fmt: skip
    run(browser, kind="audit", archive="yes")
    [told] = answer_of(command_on(browser.get(newest_report(finished(browser)))))
    assert told["ok"], told
    assert shlex.split(told["command"])[4:] == list(map(str, proofs[:2]))
    assert dict(told["facts"])["events"].startswith("1 to ")
    another = path / "another.pem"
    make_pair(another)
    shutil.copy(f"{another}.pub", key)
    run(browser, kind="verify")
    assert "intact" in finished(browser).words, "a form without proofs asks for none"
    run(browser, kind="verify", keys="yes")
    [told] = answer_of(command_on(browser.get(newest_report(finished(browser)))))
    assert not told["ok"]
    key.unlink()
    run(browser, kind="verify", keys="yes")
    assert "ended without a result" in finished(browser).words
    assert key.name in finished(browser).words
