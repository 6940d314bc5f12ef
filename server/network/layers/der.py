"""Reading certificates in DER: the elements of ASN.1, and the holder of a certificate.

Fault model: a certificate may be damaged; then ValueError or IndexError is raised. Must never know
files.
"""

import ipaddress
from collections.abc import Iterator
from typing import Final, NamedTuple

_VERSION_TAG: Final = 0xA0
_EXTENSIONS_TAG: Final = 0xA3
_BMP_STRING: Final = 0x1E
_ALTERNATIVE_NAMES: Final = "551d11"
_DNS, _URI, _ADDRESS, _MAIL = 0x82, 0x86, 0x87, 0x81
_PARTS: Final = {
    "550403": "CN", "550406": "C", "550407": "L", "550408": "ST", "55040a": "O", "55040b": "OU",
    "550405": "serialNumber", "0992268993f22c640119": "DC", "0992268993f22c640101": "UID",
    "2a864886f70d010901": "emailAddress",
}  # fmt: skip
"""The parts of a name by their object identifiers, as RFC 4514 writes them."""
NAMES_MAX: Final = 100
"""How many names of a certificate are read."""


class Holder(NamedTuple):
    """The holder of a certificate, its issuer, and the names of hosts in it."""

    subject: str
    issuer: str
    names: tuple[str, ...]


def first_of(pem: str) -> str:
    """Return the first certificate of a text, "" if there is none."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    start = pem.find(begin)
    stop = pem.find(end, start)
    return pem[start : stop + len(end)] if start >= 0 and stop >= 0 else ""


def element(der: bytes, at: int) -> tuple[int, int, int]:
    """Return tag, beginning and end of the contents of an element of ASN.1 in DER."""
    length = der[at + 1]
    start = at + 2
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(der[start : start + count])
        start += count
    if start + length > len(der):
        raise ValueError(at)
    return der[at], start, start + length


def fields_of(der: bytes) -> list[int]:
    """Return where the fields of a certificate begin, without its version: serial number,
    signature, issuer, validity, subject, key, and what follows."""
    _, inside, _ = element(der, 0)
    found = list(_within(der, inside))
    return found[1:] if der[found[0]] == _VERSION_TAG else found


def holder_of(der: bytes) -> Holder:
    """Return the holder of a certificate."""
    _, _, issuer, _, subject, _, *more = fields_of(der)
    return Holder(_name(der, subject), _name(der, issuer), tuple(_alternatives(der, more)))


def _within(der: bytes, at: int) -> Iterator[int]:
    """Yield where the elements in an element begin."""
    _, at, stop = element(der, at)
    while at < stop:
        yield at
        _, _, at = element(der, at)


def _name(der: bytes, at: int) -> str:
    """Return a name in the notation of RFC 4514, the narrowest part first."""
    parts = [
        "+".join(_part(der, each) for each in _within(der, relative))
        for relative in _within(der, at)
    ]
    return ",".join(reversed(parts))


def _part(der: bytes, at: int) -> str:
    kind, value = _within(der, at)
    _, start, stop = element(der, kind)
    identifier = der[start:stop].hex()
    return f"{_PARTS.get(identifier, identifier)}={_text(der, value)}"


def _text(der: bytes, at: int) -> str:
    tag, start, stop = element(der, at)
    encoding = "utf-16-be" if tag == _BMP_STRING else "utf-8"
    return der[start:stop].decode(encoding, errors="replace")


def _alternatives(der: bytes, fields: list[int]) -> Iterator[str]:
    for field in fields:
        if der[field] != _EXTENSIONS_TAG:
            continue
        [extensions] = _within(der, field)
        for each in _within(der, extensions):
            kind, *_, value = _within(der, each)
            _, start, stop = element(der, kind)
            if der[start:stop].hex() == _ALTERNATIVE_NAMES:
                _, inside, _ = element(der, value)
                yield from _hosts(der, inside)


def _hosts(der: bytes, at: int) -> Iterator[str]:
    for count, each in enumerate(_within(der, at)):
        tag, start, stop = element(der, each)
        if count == NAMES_MAX:
            return
        if tag in (_DNS, _URI, _MAIL):
            yield der[start:stop].decode("ascii", errors="replace")
        elif tag == _ADDRESS:
            yield str(ipaddress.ip_address(der[start:stop]))
