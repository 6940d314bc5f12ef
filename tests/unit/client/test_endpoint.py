"""URLs of brokers, and connections with TLS."""

import socket
import threading
from pathlib import Path

import pytest

from daybook.client.endpoint import Endpoint, EndpointError, parse_url
from tests.support.brokers.certificates import Authority


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("stomp://h", Endpoint("h", 61613, "guest", "guest")),
        ("stomp://h:7/", Endpoint("h", 7, "guest", "guest")),
        ("stomp://a%40b:p%3Aq@h:7", Endpoint("h", 7, "a@b", "p:q")),
        ("stomp://[::1]:8", Endpoint("::1", 8, "guest", "guest")),
        ("stomps://h", Endpoint("h", 61612, "guest", "guest", tls=True)),
        ("stomps://a:b@h:7?ca=/x%20y", Endpoint("h", 7, "a", "b", tls=True, ca="/x y")),
        ("stomps://h?certificate=c&key=k", Endpoint("h", 61612, "", "", True, "", "c", "k")),
    ],
)
def test_addresses(url: str, endpoint: Endpoint) -> None:
    assert parse_url(url) == endpoint


@pytest.mark.parametrize(
    "url", ["", "localhost:61613", "http://h", "stomp://", "stomp://h:x", "stomp://h:99999",
            "stomp://h/queue", "stomp://[::1"],
)  # fmt: skip
def test_what_is_no_address_is_said_so(url: str) -> None:
    with pytest.raises(ValueError, match="write it like stomp://"):
        parse_url(url)


def test_an_address_that_is_none_is_shown_without_its_passcode() -> None:
    with pytest.raises(ValueError, match=r"'stomp://\.\.\.@h:x' is not") as error:
        parse_url("stomp://me:secret@h:x")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("url", ["stomp://h?ca=x", "stomps://h?cas=x"])
def test_parameters_that_do_not_exist(url: str) -> None:
    with pytest.raises(ValueError, match="stomps:// takes ca, certificate, key"):
        parse_url(url)


def test_an_endpoint_shows_no_passcode() -> None:
    assert str(parse_url("stomps://joe:secret@h:7?ca=c")) == "stomps://h:7"


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    endpoint = Endpoint("127.0.0.1", 1, "", "", tls=True, ca=str(bad))
    with pytest.raises(EndpointError, match=r"cannot be used .*No such file"):
        endpoint.connect(1)
    bad.write_text("nonsense")
    with pytest.raises(EndpointError, match="cannot be used"):
        endpoint.connect(1)
    good = str(Authority(tmp_path).ca)
    with pytest.raises(EndpointError, match="cannot be used"):
        endpoint._replace(ca=good, certificate=good).connect(1)


def test_a_peer_without_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"ERROR\n\n\0")

        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        endpoint = Endpoint("localhost", port, "", "", tls=True, ca=str(authority.ca))
        with pytest.raises(
            EndpointError, match=r"stomps://127.0.0.1:.*the peer does not speak TLS"
        ):
            endpoint._replace(host="127.0.0.1").connect(5)
        thread.join()
