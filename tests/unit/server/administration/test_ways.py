"""Wrong fields of requests are reported in words."""

from typing import Annotated, Any

import msgspec
import pytest

from daybook.server.administration.ways import what_is_wrong


class Asked(msgspec.Struct):
    """A request with a field of each kind."""

    queue_name: str
    count: Annotated[int, msgspec.Meta(ge=0, le=9)] = 0
    share: float = 0.0
    force: bool = False
    ids: tuple[int, ...] = ()
    values: dict[str, str] = {}
    changes: dict[str, bool | int] = {}
    user: str | None = None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"count": "x"}, "the count must be a whole number"),
        ({"count": -1}, "the count must be at least 0"),
        ({"count": 10}, "the count must be at most 9"),
        ({"share": "x"}, "the share must be a number"),
        ({"force": "maybe"}, "the force must be true or false"),
        ({"ids": ["x"]}, "the ids must be a whole number"),
        ({"ids": 3}, "the ids must be a list"),
        ({"values": 3}, "the values must be a list of KEY=VALUE"),
        ({"changes": {"a": []}}, "the changes must be true or false"),
        ({"user": 3}, "the user must be a text"),
        ({"queue_name": msgspec.UNSET}, "the queue_name is needed"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], said: str) -> None:
    asked = {"queue_name": "q"} | fields
    asked = {name: value for name, value in asked.items() if value is not msgspec.UNSET}
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(asked, Asked, strict=False)
    assert what_is_wrong(caught.value, lambda name: f"the {name}") == said


def test_other_words_stay() -> None:
    error = msgspec.ValidationError("Invalid enum value 'x' - at `$.kind`")
    assert what_is_wrong(error, str.upper) == "KIND is wrong: Invalid enum value 'x'"
