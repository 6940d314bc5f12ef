"""What tests of the console do over and over."""

from tests.support import nursery
from tests.support.process import DAYBOOK, BrokerProcess


def send(broker: BrokerProcess, destination: str, body: str, *words: str) -> None:
    """Send a message as the user ada."""
    url = f"stomp://ada:ada@127.0.0.1:{broker.port}"
    done = nursery.run(
        [DAYBOOK, "send", destination, body, "--url", url, *words],
        capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
