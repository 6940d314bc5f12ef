"""The journal's record of refused peers."""

from daybook.engine.commands import RefuseConnection
from daybook.engine.facts.reasons import AUTHENTICATION, PROTOCOL_ERROR
from daybook.server.process.tally import SPAN_US
from daybook.server.users.login_refusals import ADDRESSES_MAX, TEXT_MAX, Refusals


class Journal:
    """Refusals and what they recorded."""

    def __init__(self) -> None:
        self.records: list[RefuseConnection] = []
        self.refusals = Refusals(self.records.append)
        self.refusals.is_known = lambda login: login == "joe"

    def note(self, login: str = "joe", *, address: str = "192.0.2.1", now: int = 1) -> None:
        text = f"login or passcode of '{login}' is wrong"
        refusal = (AUTHENTICATION, "STOMP 1.2", login, text)
        self.refusals.note(refusal, peer=f"{address}:5", address=address, now=now)


def test_the_first_of_an_address_is_recorded_and_the_others_are_counted() -> None:
    journal = Journal()
    for _ in range(1000):
        journal.note()
    [first] = journal.records
    assert (first.peer, first.user, first.count) == ("192.0.2.1:5", "joe", 1)
    journal.refusals.tick(2)
    assert len(journal.records) == 1
    journal.refusals.tick(1 + SPAN_US)
    more = journal.records[1]
    assert (more.reason, more.peer, more.count) == (AUTHENTICATION, "192.0.2.1", 999)
    for _ in range(3):
        journal.note(now=2 + SPAN_US)
    journal.refusals.flush()
    assert [record.count for record in journal.records] == [1, 999, 1, 2]
    assert journal.refusals.count == 1003


def test_reasons_are_told_apart() -> None:
    journal = Journal()
    journal.note()
    refusal = (PROTOCOL_ERROR, "STOMP 1.0", "", "no common version")
    journal.refusals.note(refusal, peer="p", address="192.0.2.1", now=1)
    assert [record.reason for record in journal.records] == [AUTHENTICATION, PROTOCOL_ERROR]


def test_many_addresses_write_no_more_than_the_table_has() -> None:
    journal = Journal()
    for number in range(10_000):
        journal.note(address=f"10.0.{number >> 8}.{number & 255}")
    assert len(journal.records) == ADDRESSES_MAX
    journal.refusals.tick(1 + SPAN_US)
    assert len(journal.records) == ADDRESSES_MAX + 1
    assert journal.records[-1].count == 10_000 - ADDRESSES_MAX


def test_an_unknown_login_cannot_be_read_from_what_is_recorded() -> None:
    journal = Journal()
    secret = "correct horse battery staple"
    journal.note(secret)
    [record] = journal.records
    assert secret not in record.user + record.text
    assert record.user.startswith("unknown:")
    assert record.user.endswith("(28 characters)")
    name_of = journal.refusals.name_of
    assert name_of(secret) == name_of(secret) != name_of("another")
    assert name_of(secret) != Journal().refusals.name_of(secret), "the key ends with the process"
    assert name_of("\ud800") != name_of("")


def test_what_is_recorded_is_short() -> None:
    journal = Journal()
    refusal = (PROTOCOL_ERROR, "STOMP 1.2", "x" * 10_000, "y" * 10_000)
    journal.refusals.note(refusal, peer="p", address="a", now=1)
    [record] = journal.records
    assert len(record.text) == TEXT_MAX
    assert len(record.user) < 50


def test_nothing_is_recorded_while_the_disk_is_short() -> None:
    journal = Journal()
    journal.refusals.is_disk_short = True
    for _ in range(10):
        journal.note()
    journal.refusals.tick(1 + SPAN_US)
    assert journal.records == []
    journal.refusals.is_disk_short = False
    journal.refusals.tick(1 + SPAN_US)
    assert [record.count for record in journal.records] == [10]
