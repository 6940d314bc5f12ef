"""Laws of address settings: merging agrees with a plain model."""

from functools import cmp_to_key

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.settings.setting_keys import KEYS, Matches
from daybook.engine.settings.settings import Settings, problems
from tests.support.models.patterns import matches as matches_name

words = st.sampled_from(["a", "b", "cc"])
addresses = st.lists(words, min_size=1, max_size=4).map(".".join)
matches = st.builds(
    lambda head, tail: ".".join([*head, *tail]) or "#",
    st.lists(words | st.just("*"), max_size=4),
    st.sampled_from([[], ["#"]]),
)
values = st.fixed_dictionaries(
    {},
    optional={
        "max-delivery-attempts": st.integers(-1, 20),
        "dead-letter-address": st.sampled_from(["", "DLQ", "X"]),
        "expiry-address": st.sampled_from(["", "EXP", "Y"]),
        "auto-create-addresses": st.booleans(),
        "auto-create-queues": st.booleans(),
    },
)
settings = st.dictionaries(matches, values, max_size=6)


def compare(left: str, right: str) -> int:
    """The order of two different wildcard matches, in the words of the specification."""
    if ("#" in left) != ("#" in right):
        return 1 if "#" in left else -1
    if "#" in left and len(left) != len(right):
        return len(right) - len(left)
    for one, other in zip(left.split("."), right.split("."), strict=False):
        if (one == "*") != (other == "*"):
            return 1 if one == "*" else -1
    return -1 if left < right else 1


@given(settings, addresses)
def test_merging_agrees_with_the_specification(given_settings: Matches, address: str) -> None:
    covering = [match for match in given_settings if matches_name(match, address)]
    exact = [match for match in covering if match == address]
    wild = sorted((match for match in covering if match != address), key=cmp_to_key(compare))
    merged = Settings(given_settings)
    resolved = merged.resolve(address)
    for key, value, origin in merged.explain(address):
        expected = next((match for match in [*exact, *wild] if key in given_settings[match]), "")
        assert origin == expected
        assert value == getattr(resolved, key.replace("-", "_"))
        if origin:
            assert value == given_settings[origin][key]
        else:
            assert value == next(row.default for row in KEYS if row.name == key)


@given(settings, addresses, st.randoms(use_true_random=False))
def test_the_order_of_a_file_does_not_matter(
    given_settings: Matches, address: str, random: "object"
) -> None:
    shuffled = list(given_settings.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert Settings(dict(shuffled)).explain(address) == Settings(given_settings).explain(address)


@given(settings)
def test_the_dict_form_comes_back(given_settings: Matches) -> None:
    assert problems(given_settings) == []
    assert Settings.from_dict(given_settings).to_dict() == given_settings
