"""Two brokers of a test, of which one connects to the other, and what their lists say."""

import json
from pathlib import Path
from typing import Any, Final

from tests.support import nursery
from tests.support.process import DAYBOOK, BrokerProcess, wait_for

SECONDS: Final = 20.0
AMQP: Final = ("amqp://127.0.0.1:0",)


def command(*words: str, code: int = 0) -> str:
    """Run `daybook` with an exit code; return what it printed, or the error."""
    done = nursery.run([DAYBOOK, *words], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def listed(broker: BrokerProcess, *words: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(command(*words, "--data", str(broker.data), "--json"))
    return rows


def row(broker: BrokerProcess, name: str = "east") -> dict[str, Any]:
    [found] = [each for each in listed(broker, "connectors") if each["connector"] == name]
    return found


def wait_until(broker: BrokerProcess, state: str, name: str = "east") -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found = row(broker, name)
        return found if found["state"] == state else None

    return wait_for(look, f"{name} to be {state}", SECONDS)  # type: ignore[no-any-return]


def wait_for_link(broker: BrokerProcess, name: str, state: str = "active") -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        rows = listed(broker, "auto-link", "list")
        found = [each for each in rows if each["auto_link"] == name and each["state"] == state]
        return found[0] if found else None

    return wait_for(look, f"{name} to be {state}", SECONDS)  # type: ignore[no-any-return]


def wait_why(broker: BrokerProcess, words: str, name: str = "east") -> str:
    def look() -> str:
        why: str = row(broker, name)["why"]
        return why if words in why else ""

    return wait_for(look, f"the reason {words!r}", SECONDS)  # type: ignore[no-any-return]


def connector(port: int, *lines: str, name: str = "east", scheme: str = "amqp") -> str:
    url = f'url = "{scheme}://127.0.0.1:{port}"'
    return "\n".join(("[[connector]]", f'name = "{name}"', url, *lines, ""))


QUICK: Final = ('reconnect-delay = "100ms"', 'reconnect-delay-max = "400ms"')


def west(folder: Path, config: str, **more: Any) -> BrokerProcess:
    return BrokerProcess(
        folder / "west", config=config, listen=AMQP, settings=["name=west"], processes=1, **more
    )


def east(folder: Path, config: str = "", port: int = 0) -> BrokerProcess:
    listen = (f"amqp://127.0.0.1:{port}",)
    return BrokerProcess(folder / "east", config=config, listen=listen, processes=1)
