"""What people write into forms, as a request."""

import pytest

from daybook.console.pages.forms import (
    fields_of,
    in_words_of_the_form,
    label_of,
    request_in,
    said_in,
)
from daybook.server.administration.retries import rate_in
from daybook.server.administration.ways import command_line, every_way, way_of


def asked(attribute: str, value: str) -> object:
    found = way_of("queue create")
    assert found is not None
    given = [("name", "q"), ("address", "q"), (attribute, value)]
    return request_in(found, given)["definition"][attribute]


@pytest.mark.parametrize(("text", "number"), [("12", 12), ("1,000", 1000), ("-0", 0), (" 7 ", 7)])
def test_whole_numbers_as_people_write_them(text: str, number: int) -> None:
    assert asked("max_consumers", text) == number


@pytest.mark.parametrize(
    "text", ["\uff11\uff12", "1_000", "\u0663", "1 0", "1.5", "x", "9" * 20, "-", "0x1"]
)
def test_what_is_no_whole_number_is_said_so(text: str) -> None:
    with pytest.raises(ValueError, match="max-consumers must be a whole number, and is"):
        asked("max_consumers", text)


@pytest.mark.parametrize(
    ("command", "given", "said"),
    [
        ("queue retry", "queue=DLQ filter=a='b' rate=", "queue: DLQ; filter: a='b'"),
        ("queue remove", "queue=DLQ message=7 message=9", "queue: DLQ; message: 7, 9"),
        (
            "queue create",
            "name=zz address= durable=yes enabled=yes max_consumers=3 exclusive=yes",
            "name: zz; max-consumers: 3; exclusive: yes",
        ),
        (
            "queue create",
            "name=zz routing_type=multicast enabled=yes",
            "name: zz; routing-type: multicast; durable: no",
        ),
    ],
)
def test_what_was_given_is_said_in_the_words_of_the_form(
    command: str, given: str, said: str
) -> None:
    found = way_of(command)
    assert found is not None
    pairs = [(name, value) for name, _, value in (each.partition("=") for each in given.split())]
    told = "; ".join(f"{label}: {text}" for label, text in said_in(fields_of(found), pairs))
    assert told == said


def test_a_text_is_emptied_by_its_box() -> None:
    found = way_of("queue update")
    assert found is not None
    given = [("queue", "q"), ("filter", ""), ("filter.empty", "yes"), ("max_consumers", "")]
    asked = request_in(found, given)
    assert asked["changes"] == {"filter": ""}
    assert command_line(found.way, asked) == "daybook queue update --filter '' q"
    assert said_in(fields_of(found), given) == [("queue", "q"), ("filter", "(empty)")]
    with pytest.raises(ValueError, match="filter has a new text, or is made empty, not both"):
        request_in(found, [*given, ("filter", "a = 1")])
    for box in ("max_consumers.empty", "routing_type.empty", "exclusive.empty"):
        with pytest.raises(ValueError, match="what is left empty stays as it is"):
            request_in(found, [("queue", "q"), (box, "yes")])


def test_an_update_does_not_say_that_an_empty_field_means_something() -> None:
    fields = {
        command: {field.name: field for field in fields_of(found)}
        for command in ("queue create", "queue update")
        if (found := way_of(command)) is not None
    }
    for each in fields["queue update"].values():
        assert "empty:" not in each.help
    changed, made = (fields[command]["filter"] for command in ("queue update", "queue create"))
    assert changed.empties == "make it empty: all of them"
    assert changed.help == "Which messages it takes: a condition, as in SQL-92."
    assert made.empties == ""
    assert made.help.endswith("; empty: all of them.")


def test_rates_are_proposed_where_a_retry_takes_one() -> None:
    found = way_of("queue retry")
    assert found is not None
    [rate] = [field for field in fields_of(found) if field.name == "rate"]
    assert len(rate.presets) > 1
    assert all(isinstance(rate_in(each), float) for each in rate.presets)


def test_no_text_of_a_form_has_words_of_the_command_line() -> None:
    for found in every_way():
        if found.way.done:
            texts = (found.way.doc or found.row.__doc__, found.way.missing, found.way.begun)
            # Attributes have an error of their own in forms.
            for text in texts if found.way.command != "queue update" else texts[:1]:
                said = in_words_of_the_form(text or "", found)
                assert "--" not in said, found.way.command
                assert "`" not in said, found.way.command


def test_commands_are_said_as_pages_and_buttons() -> None:
    found = way_of("queue retry")
    assert found is not None
    text = "With --rate: see `queue retries`, and `daybook queue stop-retry`; --other `nothing`"
    assert in_words_of_the_form(text, found) == (
        "With 'rate': see the page Retries, and 'stop retry'; --other `nothing`"
    )
    assert in_words_of_the_form("See `daybook queue shards`.", found) == (
        "See the page Shards of the queue."
    )


@pytest.mark.parametrize(
    ("command", "field", "given"),
    [
        ("queue delete", "force", "queue=q"),
        ("address delete", "force", "address=a"),
        ("address create", "if_missing", "address=a"),
        ("queue create", "if_missing", "name=q"),
    ],
)
def test_a_ticked_box_is_in_the_request(command: str, field: str, given: str) -> None:
    found = way_of(command)
    assert found is not None
    name, _, value = given.partition("=")
    assert request_in(found, [(name, value), (field, "yes")])[field] is True
    assert request_in(found, [(name, value)])[field] is False


@pytest.mark.parametrize(
    ("rate", "more", "why"),
    [
        ("1/s", ("message", "7"), "a rate is for retries of all messages, or of those that a"),
        ("soon", ("filter", "a = 1"), "'soon' is not a rate; write 50/s"),
    ],
)
def test_a_rate_that_does_not_fit_is_said_before_the_question(
    rate: str, more: tuple[str, str], why: str
) -> None:
    found = way_of("queue retry")
    assert found is not None
    with pytest.raises(ValueError, match=why):
        request_in(found, [("queue", "DLQ"), ("rate", rate), more])


def test_a_missing_choice_is_said_by_its_fields() -> None:
    found = way_of("queue remove")
    assert found is not None
    with pytest.raises(ValueError, match="choose messages with 'filter' or 'message', or purge"):
        request_in(found, [("queue", "q")])


@pytest.mark.parametrize(
    ("command", "asked", "label"),
    [
        ("queue purge", {"queue": "orders.us"}, "Purge queue orders.us"),
        ("queue resume", {"queue": "orders.us"}, "Resume queue orders.us"),
        ("address delete", {"address": "a"}, "Delete address a"),
        ("queue remove", {"queue": "q", "message": (1, 2, 3, 4, 5)}, "Remove 5 messages"),
        ("queue remove", {"queue": "q", "message": 1}, "Remove 1 message"),
        ("queue remove", {"queue": "q", "filter": "a = 1"}, "Remove matching messages of queue q"),
        ("queue retry", {"queue": "q", "filter": ""}, "Retry messages of queue q"),
        ("queue stop-retry", {"queue": "q"}, "Do it"),
        ("settings set", {"match": "q"}, "Do it"),
    ],
)
def test_the_button_says_what_it_does(command: str, asked: dict[str, object], label: str) -> None:
    found = way_of(command)
    assert found is not None
    assert label_of(found, asked) == label
