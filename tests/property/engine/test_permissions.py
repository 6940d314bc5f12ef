"""The law of permissions: the effective rights agree with a naive evaluator of the rules."""

from functools import cmp_to_key
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.settings.permissions import CONSUME, SEND, Permissions
from tests.property.engine.settings.test_settings_merge import compare
from tests.support.models.patterns import matches as matches_name

words = st.sampled_from(["a", "b", "*"])
matches = st.builds(
    lambda head, tail: ".".join([*head, *tail]) or "#",
    st.lists(words, max_size=3),
    st.sampled_from([[], ["#"]]),
)
who = st.lists(st.sampled_from(["one", "two", "user:carl", "*"]), max_size=2).map(tuple)
rules = st.dictionaries(matches, st.fixed_dictionaries({SEND: who, CONSUME: who}), max_size=6)
users = st.sampled_from(["ann", "bob", "carl"])
ROLES = {"ann": frozenset({"one"}), "bob": frozenset({"one", "two"})}
NAMES = [
    ".".join(name) for length in range(1, 6) for name in product(["a", "b", "z"], repeat=length)
]
"""Every name over an alphabet with a word that no rule has, longer than every rule."""


def naive(given_rules: dict[str, dict[str, tuple[str, ...]]], user: str, name: str) -> bool:
    """Whether a user may send to a name, in the words of the specification."""
    covering = [match for match in given_rules if matches_name(match, name)]
    covering.sort(key=cmp_to_key(compare))
    if not given_rules:
        return True
    if not covering:
        return False
    granted = given_rules[name if name in given_rules else covering[0]][SEND]
    allowed = {"*", f"user:{user}", *ROLES.get(user, ())}
    return bool(allowed & set(granted))


@given(rules, users, st.sampled_from(NAMES))
def test_names(given_rules: dict[str, dict[str, tuple[str, ...]]], user: str, name: str) -> None:
    permissions = Permissions(given_rules, ROLES)
    assert permissions.allows(user, SEND, name) is naive(given_rules, user, name)


@given(rules, rules, users, st.sampled_from([*NAMES, "a.*", "b.#"]), st.booleans(), st.booleans())
def test_one_of_several_is_enough(
    given_rules: dict[str, dict[str, tuple[str, ...]]],
    of_host: dict[str, dict[str, tuple[str, ...]]],
    user: str,
    name: str,
    on_host: bool,
    has_more: bool,
) -> None:
    queue = {f"{match}::q": granted for match, granted in list(given_rules.items())[:1]}
    permissions = Permissions(given_rules, ROLES)
    if has_more:
        permissions = Permissions(given_rules | queue, ROLES, of_hosts={"eu": of_host})
    place = f"eu::{name}" if on_host else name
    for asked in (None, "q", "eu::q"):
        has = [permissions.allows(user, each, place, asked) for each in (SEND, CONSUME)]
        assert permissions.allows_any(user, (SEND, CONSUME), place, asked) is any(has)
        assert permissions.allows_any(user, (SEND,), place, asked) is has[0]


@given(rules, users, matches)
def test_a_pattern_gives_no_name_that_is_refused(
    given_rules: dict[str, dict[str, tuple[str, ...]]], user: str, pattern: str
) -> None:
    permissions = Permissions(given_rules, ROLES)
    names = [name for name in NAMES if matches_name(pattern, name)]
    truth = all(naive(given_rules, user, name) for name in names)
    allowed = permissions.allows(user, SEND, pattern)
    assert truth or not allowed
    covering = any(match in given_rules for match in ("#", pattern))
    if truth and covering:
        # A rule that covers the whole pattern makes the answer exact, except that a rule may be
        # hidden by several others together.
        hidden = len(given_rules) > 2
        assert allowed or hidden
