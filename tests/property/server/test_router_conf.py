"""The configuration of a router, made at random of what its schema knows: it is taken over, or
refused with lines, and what is taken over means the same as the broker.toml that it becomes."""

from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daybook.server.configuration.config import ConfigError, load
from daybook.server.configuration.config_text import as_toml
from daybook.server.foreign.findings import Findings
from daybook.server.foreign.router.router_conf import read_router_conf
from daybook.server.foreign.router.schema import FLAG, MAP, NUMBER, SECTIONS, UNREAD, Kind

NAMES: Final = st.sampled_from(["a", "b", "a.b", "a/#", "*", "DLQ", "c d", "$x", "a//b", "\\u00e9"])
TEXTS: Final = NAMES | st.sampled_from(["127.0.0.1", "::1", "5672", "0", "file:/x", "env:X", "~"])
NUMBERS: Final = st.integers(-2, 11) | st.sampled_from([600, 65536, 2**31])
OTHERS: Final = st.sampled_from(["", "yes", "no", "out", "{", "}", '"', "x: y"])


def _values(kind: Kind) -> st.SearchStrategy[Any]:
    if kind.words:
        return st.sampled_from(kind.words)
    if kind.type == MAP:
        return st.just("{\n}")
    return {FLAG: st.sampled_from(["yes", "no"]), NUMBER: NUMBERS}.get(kind.type, TEXTS)


@st.composite
def _sections(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(SECTIONS) * 9 + sorted(UNREAD)))
    known = {"name": Kind(), **SECTIONS.get(name, {})}
    required = {key for key, kind in known.items() if kind.required}
    keys = draw(st.sets(st.sampled_from(sorted(known)), max_size=5)) | required
    if name in ("autoLink", "linkRoute") and draw(st.booleans()):
        keys |= {"containerId"}
    is_odd = draw(st.integers(0, 15)) == 0
    lines = [f"{key}: {draw(OTHERS if is_odd else _values(known[key]))}" for key in sorted(keys)]
    return "\n".join([f"{name} {{", *lines, "}\n"])


@example(sections=["listener {\nwebsockets: yes\n}\n"])
@given(sections=st.lists(_sections(), max_size=6))
def test_a_configuration_means_the_same_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, sections: list[str]
) -> None:
    file = tmp_path_factory.mktemp("router", numbered=True) / "router.conf"
    file.write_text("router {\n}\n" + "".join(sections))
    try:
        config = load(file)
    except ConfigError as error:
        for each in error.problems:
            number = each.removeprefix(f"{file}:").partition(":")[0]
            assert number.isdigit(), each
        return
    findings = Findings()
    source = read_router_conf(file, [], findings)
    assert len({*findings.lost, *findings.needless}) == len(findings.lost + findings.needless)
    toml = file.with_suffix(".toml")
    toml.write_text(as_toml(source, file.name, findings.lost, findings.needless))
    again = load(toml)
    for field in config.__struct_fields__:
        if field not in ("warnings", "foreign"):
            assert getattr(again, field) == getattr(config, field), field


def test_the_search_reaches_both(tmp_path: Path) -> None:
    """Of what the strategy makes, a good part is taken over, and a good part refused."""
    taken = []

    @given(section=_sections())
    def one(section: str) -> None:
        file = tmp_path / "router.conf"
        file.write_text(section)
        try:
            load(file)
        except ConfigError:
            taken.append(False)
        else:
            taken.append(True)

    one()
    assert 0.1 < sum(taken) / len(taken) < 0.9
