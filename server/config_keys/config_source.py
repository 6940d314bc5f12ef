"""Reads a configuration file and flags, without checking the values.

Values are kept with the place where they were written, in the structure of the configuration:
sections, arrays of tables, address settings by match. Flags override the file here. This module
must never check a value; it knows only which sections and keys exist. Problems are collected, not
raised.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from daybook.protocols.registry import DEFAULT
from daybook.server.config_keys.acceptor_config import BETWEEN
from daybook.server.config_keys.acceptor_options import TABLES, table_of
from daybook.server.config_keys.option import unknown
from daybook.server.config_keys.options import ARRAYS, SECTIONS
from daybook.server.config_keys.toml_source import Place, TomlError, TomlSource, read_toml

SETTINGS: Final = "address-setting"
_TOP: Final = (*(option.name for option in SECTIONS["broker"]), *SECTIONS, *ARRAYS, SETTINGS)


class Given(msgspec.Struct, frozen=True):
    """A value and where it was written; `text` marks the text of a flag, which is not TOML."""

    value: object
    where: str
    text: bool = False


class Block(msgspec.Struct):
    """A section, or one element of an array of tables: where it begins, and its values."""

    where: str = ""
    values: dict[str, Given] = {}


class Source:
    """All given values: by section, by array, and address settings in order."""

    def __init__(self) -> None:
        self.sections: dict[str, Block] = {name: Block() for name in SECTIONS}
        self.arrays: dict[str, list[Block]] = {name: [] for name in ARRAYS}
        self.settings: list[Block] = []
        self.replaced: list[Block] = []
        """Acceptors of the file that flags replace: not used, but still checked."""
        self.spare: list[Block] = []
        """Acceptors of a broker.xml that cannot be opened: flags make others with their
        prefixes."""
        self.is_artemis = False


def read_file(path: Path, problems: list[str]) -> Source:
    """Read a file; adds unreadable and misplaced parts to `problems`."""
    source = Source()
    try:
        toml = read_toml(path)
    except TomlError as error:
        problems.append(str(error))
        return source
    for name, value in toml.data.items():
        where = toml.where((name,))
        if name in SECTIONS:
            if isinstance(value, dict):
                _add_section(source.sections[name], value, toml, (name,), problems)
            else:
                problems.append(f"{where}: {name} is a section; write [{name}] and its keys below")
        elif name in ARRAYS or name == SETTINGS:
            blocks = source.settings if name == SETTINGS else source.arrays[name]
            if isinstance(value, list) and all(isinstance(one, dict) for one in value):
                for position, one in enumerate(value):
                    blocks.append(Block(toml.where((name, position)), {}))
                    _add_section(blocks[-1], one, toml, (name, position), problems)
            else:
                problems.append(f"{where}: {name} may come several times; write [[{name}]]")
        elif isinstance(value, dict | list) and name not in _TOP:
            sections = (*SECTIONS, *ARRAYS, SETTINGS)
            problems.append(f"{where}: {unknown('section', name, sections)}")
        elif name not in _TOP:
            problems.append(f"{where}: {unknown('key', name, _TOP)}")
        else:
            _add_section(source.sections["broker"], {name: value}, toml, (), problems)
    return source


def _add_section(
    block: Block, values: Mapping[str, Any], toml: TomlSource, place: Place, problems: list[str]
) -> None:
    block.where = block.where or toml.where(place)
    for key, value in values.items():
        where = toml.where((*place, key))
        if key in block.values:
            first = block.values[key].where
            problems.append(f"{where}: {key} was set before, at {first}; remove one of them")
        block.values[key] = Given(value, where)


def read_flags(
    source: Source, overrides: Sequence[str], listen: Sequence[str], problems: list[str]
) -> None:
    """Apply the flags `--listen` and `--set` to the values of a file."""
    if listen and not source.is_artemis:
        source.replaced = source.arrays["acceptor"]
        source.arrays["acceptor"] = []
    for text in listen:
        where = f"--listen {text}"
        protocol, separator, endpoint = text.partition("://")
        if not separator:
            problems.append(
                f"{where}: it must be PROTOCOL://HOST:PORT, like "
                f"{DEFAULT.scheme}://{DEFAULT.listen}"
            )
            continue
        values = _acceptor_of_url(protocol, endpoint, where)
        for spare in source.spare:
            prefixes = ("anycast-prefix", "multicast-prefix")
            values |= {key: spare.values[key] for key in prefixes if key in spare.values}
        source.arrays["acceptor"].append(Block(where, values))
    if not source.arrays["acceptor"]:
        source.arrays["acceptor"].append(Block("the default acceptor", {}))
    for text in overrides:
        _override(source, text, problems)


def _acceptor_of_url(scheme: str, rest: str, where: str) -> dict[str, Given]:
    """Return the values of PROTOCOL://HOST:PORT?KEY=VALUE&...; a scheme with an s has TLS, and one
    with a + several protocols.
    """
    endpoint, _, parameters = rest.partition("?")
    values = {"listen": Given(endpoint, where)}
    protocols = scheme.split(BETWEEN)
    if all(each not in TABLES and each.removesuffix("s") in TABLES for each in protocols):
        protocols = [each.removesuffix("s") for each in protocols]
        values["tls"] = Given(True, where)
    values |= speaking(protocols, where)
    for parameter in filter(None, parameters.split("&")):
        key, _, value = parameter.partition("=")
        values[key] = Given(unquote(value), where, text=True)
    return values


def _override(source: Source, text: str, problems: list[str]) -> None:
    where = f"--set {text}"
    path, separator, value = text.partition("=")
    if not separator:
        problems.append(f"{where}: it must be KEY=VALUE, like journal.segment-bytes=16MiB")
        return
    given = Given(value.strip(), where, text=True)
    section, _, key = path.strip().rpartition(".")
    if section == "" and key in (*SECTIONS, *ARRAYS, SETTINGS):
        problems.append(f"{where}: {key} is a section; name one of its keys, as {key}.KEY=VALUE")
    elif section in ("", *SECTIONS):
        if section == "" and (wrong := _elsewhere(key)):
            problems.append(f"{where}: {wrong}")
        else:
            source.sections[section or "broker"].values[key] = given
    elif section == "acceptor":
        _override_acceptors(source.arrays["acceptor"], key, given)
    elif section.startswith(f"{SETTINGS}."):
        _settings_of(source, section.removeprefix(f"{SETTINGS}."), where).values[key] = given
    elif section == SETTINGS:
        problems.append(f"{where}: it must be {SETTINGS}.MATCH.KEY=VALUE")
    elif section in ARRAYS:
        problems.append(f"{where}: [[{section}]] cannot be set by a flag; write it in a file")
    else:
        sections = (*SECTIONS, "acceptor", SETTINGS)
        first = section.partition(".")[0]
        wrong = unknown("section", first, sections)
        if first in sections:
            those = ", for all acceptors that have the key" if first == "acceptor" else ""
            wrong = f"it must be {first}.KEY=VALUE{those}; one part too many"
        problems.append(f"{where}: {wrong}")


def protocol_of(block: Block) -> str:
    """Return the protocol of an acceptor, or the default if the name is unknown."""
    given = block.values.get("protocol")
    value = given.value if given is not None else None
    return value if isinstance(value, str) and value in TABLES else DEFAULT.scheme


def protocols_of(block: Block) -> tuple[str, ...]:
    """Return the protocols of an acceptor, without unknown names."""
    given = block.values.get("protocols")
    value = given.value if given is not None else None
    if given is not None and given.text and isinstance(value, str):
        value = literal(value)
    named = value if isinstance(value, list) else []
    known = [each for each in named if isinstance(each, str) and each in TABLES]
    return tuple(dict.fromkeys(known)) or (protocol_of(block),)


def speaking(protocols: Sequence[str], where: str) -> dict[str, Given]:
    """Return the value that says what an acceptor speaks."""
    if len(protocols) == 1:
        return {"protocol": Given(protocols[0], where)}
    return {"protocols": Given(list(protocols), where)}


def _override_acceptors(blocks: list[Block], key: str, given: Given) -> None:
    """Set a key of every acceptor whose protocol has it; of all acceptors if none has it."""
    known = [
        block
        for block in blocks
        if any(option.name == key for option in table_of(protocols_of(block)))
    ]
    for block in known or blocks:
        block.values[key] = given


def _elsewhere(key: str) -> str:
    """Return the error for a key of another section given without its section; "" otherwise."""
    if any(option.name == key for option in SECTIONS["broker"]):
        return ""
    tables = {**SECTIONS, "acceptor": ARRAYS["acceptor"]}
    found = [name for name, table in tables.items() if any(one.name == key for one in table)]
    if not found:
        return ""
    meant = " or ".join(repr(f"{name}.{key}") for name in found)
    return f"unknown key {key!r}; did you mean {meant}?"


def _settings_of(source: Source, match: str, where: str) -> Block:
    for block in source.settings:
        given = block.values.get("match")
        if given is not None and given.value == match:
            return block
    block = Block(where, {"match": Given(match, where)})
    source.settings.append(block)
    return block


def literal(text: str) -> object:
    """Parse a flag's text as a TOML value; return the text itself if it is not one."""
    try:
        return tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except tomllib.TOMLDecodeError:
        return text
