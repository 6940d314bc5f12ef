"""Sections `listener` and `connector` as acceptors and connectors of ours.

Must never know how a file is read, and never read a passcode.
"""

from typing import Final

from daybook.server.config_keys.config_source import speaking
from daybook.server.config_keys.connector_options import (
    EXTERNAL,
    MECHANISMS,
    PLAIN,
    SCRAM,
    WITH_PASSCODE,
)
from daybook.server.foreign.router.grammar import Section
from daybook.server.foreign.router.notes import Notes, Reading
from daybook.server.foreign.router.profiles import (
    Profiles,
    encrypt_acceptor,
    encrypt_connector,
)
from daybook.server.foreign.router.reasons import NETWORK, NETWORK_ROLES

_PORTS: Final = {"amqp": "5672", "amqps": "5671"}
_PORT: Final = "amqp"
_ROUTE_CONTAINER: Final = "route-container"
_EVERYWHERE: Final = {"IPv6": "::"}
_HERE: Final = "127.0.0.1"
_FRAME_MAX: Final = 64 << 20
_SESSIONS_MAX: Final = 65_536
_SECOND_MS: Final = 1000
_IN_CLEAR_TEXT: Final = [SCRAM, PLAIN]


class Peers:
    """The listeners and connectors of a file. `connectors` has the name here of each connector by
    its name there; `without_connector` says why a name there leads to none.
    """

    def __init__(self, profiles: Profiles, notes: Notes) -> None:
        self.connectors: Final[dict[str, str]] = {}
        self.without_connector: Final[dict[str, str]] = {}
        self._profiles: Final = profiles
        self._notes: Final = notes
        self._guests: Final[list[bool]] = []

    def end(self) -> None:
        """Let guests in if no listener asks for logins, and say so if there is no listener."""
        if not self._notes.source.arrays["acceptor"]:
            self._notes.lose(1, "no listener could be taken over; clients need an [[acceptor]]")
        elif all(self._guests):
            where = self._notes.source.arrays["acceptor"][0]
            self._notes.source.sections["broker"].values["allow-guest"] = self._notes.given(
                True, int(where.where.rpartition(":")[2])
            )

    # ---- listeners

    def read_listener(self, section: Section) -> None:
        """Translate a listener."""
        reading = Reading(section, self._notes)
        name = reading.text("name")
        if name:
            what = "is a listener: name the peer that connects to it with containerId"
            self.without_connector[name] = f"{name!r} {what}"
        if why := _why_closed(reading):
            reading.lose("role", f"{name!r} is not opened: {why}")
            return
        if reading.name:
            reading.put("name", reading.name, "name")
        reading.block.values.update(speaking(("amqp",), reading.block.where))
        host = reading.text("host").strip("[]")
        host = host or _EVERYWHERE.get(reading.text("socketAddressFamily"), "0.0.0.0")
        reading.put("listen", _endpoint(reading, host), "port" if "port" in reading else "host")
        if reading.text("role") == _ROUTE_CONTAINER:
            reading.put("role", "container", "role")
        self._encrypt(reading)
        self._note_guests(reading)
        _read_limits(reading)
        _read_handshake(reading)
        _read_http(reading)
        reading.end()
        self._notes.source.arrays["acceptor"].append(reading.block)

    def _encrypt(self, reading: Reading) -> None:
        """Read what a listener says of TLS and mechanisms."""
        mechanisms = reading.text("saslMechanisms").split()
        profile = self._profiles.of(reading)
        if profile is not None:
            encrypt_acceptor(profile, reading, mechanisms)
        else:
            # Where the router listens without TLS, its operator has decided so.
            reading.put("allow-cleartext", True)
            if reading.flag("requireSsl") and "sslProfile" not in reading:
                reading.refuse("requireSsl", "requireSsl is yes, and there is no sslProfile")
        if reading.text("trustedCertsFile") and "client-ca" not in reading.block.values:
            text = "trustedCertsFile: clients are asked for certificates by EXTERNAL, with TLS"
            reading.spare("trustedCertsFile", text)
        if mechanisms:
            text = "the broker offers every mechanism that its users can use, and not only these"
            others = [each for each in mechanisms if each not in MECHANISMS]
            spoken = f"; {', '.join(others)} is not there" if others else ""
            reading.lose("saslMechanisms", f"saslMechanisms: {text}{spoken}")

    def _note_guests(self, reading: Reading) -> None:
        self._guests.append(not reading.flag("authenticatePeer"))
        if self._guests[-1]:
            text = "authenticatePeer is no: without a login only clients of this machine come in"
            reading.lose("authenticatePeer", f"{text}; add users with `daybook user add`")

    # ---- connectors

    def read_connector(self, section: Section) -> None:
        """Translate a connector."""
        reading = Reading(section, self._notes)
        theirs = reading.text("name")
        role = reading.text("role")
        if role in NETWORK_ROLES:
            why = f"its connector has the role {role}: {NETWORK}"
            self.without_connector[theirs] = why
            reading.lose("role", f"{theirs!r} is not opened: role {role}: {NETWORK}")
            return
        endpoint = _endpoint(reading, reading.text("host", _HERE).strip("[]"))
        ours = reading.name or endpoint
        if theirs:
            self.connectors[theirs] = ours
        reading.put("name", ours, "name")
        profile = self._profiles.of(reading)
        scheme = "amqp" if "sslProfile" not in reading else "amqps"
        reading.put("url", f"{scheme}://{endpoint}", "port" if "port" in reading else "host")
        if (cost := reading.number("cost")) is not None:
            reading.put("cost", cost, "cost")
        if profile is not None:
            encrypt_connector(profile, reading)
        if not reading.flag("verifyHostname", default=True):
            reading.put("verify-host-name", False, "verifyHostname")
        _read_login(reading)
        _read_limits(reading)
        reading.end()
        self._notes.source.arrays["connector"].append(reading.block)


def _why_closed(reading: Reading) -> str:
    """Return why a listener cannot be opened, "" if it can."""
    role = reading.text("role")
    if role in NETWORK_ROLES:
        return f"role {role}: {NETWORK}"
    if reading.flag("requireEncryption") and "sslProfile" not in reading:
        return "requireEncryption is yes without an sslProfile, and SASL encrypts nothing here"
    return ""


def _endpoint(reading: Reading, host: str) -> str:
    """Return HOST:PORT, which the check of the configuration checks."""
    port = reading.text("port", _PORT)
    return f"{f'[{host}]' if ':' in host else host}:{_PORTS.get(port, port)}"


def _read_limits(reading: Reading) -> None:
    """Read the attributes of every connection."""
    for key, ours, most in (
        ("maxFrameSize", "max-frame-size", _FRAME_MAX),
        ("maxSessions", "max-sessions", _SESSIONS_MAX),
    ):
        if number := reading.number(key):
            reading.put(ours, min(number, most), key)
            if number > most:
                reading.spare(key, f"{key}: {most:,} are the most")
    seconds = reading.number("idleTimeoutSeconds")
    if seconds is not None:
        reading.put("idle-time-out", seconds * _SECOND_MS, "idleTimeoutSeconds")


def _read_handshake(reading: Reading) -> None:
    seconds = reading.number("initialHandshakeTimeoutSeconds")
    if seconds:
        reading.put("connect-timeout", seconds * _SECOND_MS, "initialHandshakeTimeoutSeconds")
    elif seconds == 0:
        text = "initialHandshakeTimeoutSeconds is 0: peers have 10 seconds (connect-timeout)"
        reading.lose("initialHandshakeTimeoutSeconds", text)


def _read_http(reading: Reading) -> None:
    """Read what a listener says of HTTP, which is there for WebSocket alone."""
    has_http = reading.flag("http")
    has_websocket = reading.flag("websockets", default=True)
    reading.put("websocket", has_http and has_websocket, "http")
    watched = [key for key in ("healthz", "metrics") if reading.flag(key, default=True)]
    if not has_http:
        for key in ("websockets", "healthz", "metrics"):
            if key in reading:
                reading.spare(key, f"{key}: it is for listeners with http: yes")
        return
    reading.spare("http", "http: AMQP is spoken at this port both with WebSocket and without")
    if watched:
        text = f'/{" and /".join(watched)} are at an [[acceptor]] with protocol = "http"'
        reading.lose("http", f"http: {text}")


def _read_login(reading: Reading) -> None:
    """Read how a connector logs in; mechanisms that it cannot use are left out."""
    login = reading.text("saslUsername")
    kind, separator, rest = reading.text("saslPassword").partition(":")
    if kind == "file" and separator:
        reading.put("passcode-file", rest, "saslPassword")
    elif kind == "env" and separator:
        text = "the environment is not read; write it to a file, and saslPassword: file:PATH"
        reading.refuse("saslPassword", f"saslPassword is in the environment: {text}")
        login = ""
    elif kind:
        plain = rest if separator and kind in ("pass", "literal") else f"{kind}{separator}{rest}"
        reading.put("passcode", plain, "saslPassword")
        text = "a file keeps it better (passcode-file)"
        reading.spare("saslPassword", f"saslPassword is in the file; {text}")
    if login:
        reading.put("login", login, "saslUsername")
    listed = reading.text("saslMechanisms").split()
    usable = [
        each for each in MECHANISMS
        if (login or each not in WITH_PASSCODE)
        and (each != EXTERNAL or "certificate" in reading.block.values)
    ]  # fmt: skip
    spoken = [each for each in listed if each in usable]
    if len(spoken) < len(listed):
        others = ", ".join(each for each in listed if each not in spoken)
        text = f"{others} is not there, or needs a login or a certificate"
        reading.lose("saslMechanisms", f"saslMechanisms: {text}")
    if login and not listed and "sslProfile" not in reading:
        # The router sends passcodes without TLS, too.
        spoken = _IN_CLEAR_TEXT
    if spoken:
        reading.put("mechanisms", spoken, "saslMechanisms" if listed else "saslUsername")
