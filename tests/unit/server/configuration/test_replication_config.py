"""Standbys in the configuration: [replication] and [[replication-node]], and each fault of them."""

from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner

from daybook.server.configuration.config import Config, ConfigError, load
from daybook.server.configuration.config_changes import changes, effective
from daybook.server.configuration.replication_config import NODES_MAX, Place
from daybook.server.network.layers.certificates import TlsError, check
from daybook.tools import daybook

ETCD = 'endpoints = ["http://127.0.0.1:2379"]\n'
HEAD = '[replication]\ncluster = "c"\nnode = "a"\n' + ETCD
FILES = 'certificate = "cert.pem"\nauthority = "ca.pem"\n'


def nodes(*addresses: str) -> str:
    """Three nodes, or those at the addresses."""
    given = addresses or tuple(f"tcp://127.0.0.1:{port}" for port in (1, 2, 3))
    return "".join(
        f'[[replication-node]]\nname = "{name}"\naddress = "{address}"\n'
        for name, address in zip("abcdef", given, strict=False)
    )


class Writer:
    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self, text: str, *overrides: str) -> Config:
        self.path.write_text(text)
        return load(self.path, overrides)

    def problems(self, text: str, *overrides: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            self.load(text, *overrides)
        return [one.replace(str(self.path), "FILE") for one in caught.value.problems]


@pytest.fixture
def write(tmp_path: Path) -> Writer:
    return Writer(tmp_path / "broker.toml")


def test_without_the_section_there_are_no_standbys(write: Writer) -> None:
    assert load().replication is None
    assert write.problems(nodes()) == ["FILE:1: [[replication-node]] needs a section [replication]"]


def test_the_defaults(write: Writer) -> None:
    config = write.load(HEAD + nodes())
    found = config.replication
    assert found is not None
    assert config.warnings == ()
    assert (found.cluster, found.node, found.acks) == ("c", "a", "majority")
    assert (found.lease, found.lag_max, found.arbiter) == (3_000, 10_000, "etcd")
    assert found.endpoints == ("http://127.0.0.1:2379",)
    assert found.prefix == "daybook"
    assert found.nodes == {
        name: Place(False, "127.0.0.1", port) for name, port in (("a", 1), ("b", 2), ("c", 3))
    }
    assert found.listen == found.address == Place(False, "127.0.0.1", 1)
    assert (found.certificate, found.etcd_authority, found.path) == ("", "", "")


def test_a_whole_section(write: Writer) -> None:
    text = (
        '[replication]\ncluster = "c"\nnode = "b"\nlisten = "tls://0.0.0.0:9"\nacks = "all"\n'
        'lease = "5s"\nlag-max = "1m"\nendpoints = ["https://[::1]:2379/", "https://e:1"]\n'
        'prefix = "p/q"\nlogin = "l"\npasscode-file = "/p"\nkey = "/k"\nauthority = "/ca"\n'
        'certificate = "/c"\n'
    )
    text += nodes("tls://one.example.org:9", "tls://[fe80::1]:9")
    found = write.load(text).replication
    assert found is not None
    assert str(found.listen) == "tls://0.0.0.0:9"
    assert [str(each) for each in found.nodes.values()] == [
        "tls://one.example.org:9", "tls://[fe80::1]:9",
    ]  # fmt: skip
    assert found.endpoints == ("https://[::1]:2379", "https://e:1")
    assert (found.lease, found.lag_max) == (5_000, 60_000)
    # What etcd gets is what the nodes get, unless something else is said.
    assert (found.etcd_certificate, found.etcd_key, found.etcd_authority) == ("/c", "/k", "/ca")
    found = write.load(text, "replication.etcd-certificate=/e").replication
    assert found is not None
    assert (found.etcd_certificate, found.etcd_key) == ("/e", "/e")


def test_the_arbiter_of_one_machine(write: Writer) -> None:
    text = '[replication]\ncluster = "c"\nnode = "a"\narbiter = "file"\npath = "lease"\n'
    config = write.load(text + nodes())
    assert config.warnings == ()
    assert config.replication is not None
    assert config.replication.path == str(Path("lease").absolute())


def test_flags_make_a_section(write: Writer) -> None:
    given = ("cluster=c", "node=a", "arbiter=file", "path=/lease", "acks=one")
    config = write.load(nodes(), *(f"replication.{each}" for each in given))
    assert config.replication is not None
    assert config.replication.acks == "one"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[replication]\n" + nodes(),
            ["FILE:1: replication.cluster is missing", "FILE:1: replication.node is missing"],
        ),
        (HEAD, ["FILE:1: [replication] needs a [[replication-node]] with name and address for each"
                " node, also for this one"]),
        (
            HEAD.replace('"a"', '"z"') + nodes(),
            ["FILE:3: replication: node is 'z', and there is no [[replication-node]] of that name;"
             " there are a, b, c"],
        ),
        (
            HEAD + nodes() + nodes("tcp://127.0.0.1:7"),
            ["FILE:15: replication-node.name 'a' was used before, at FILE:6"],
        ),
        (
            HEAD + nodes("tcp://127.0.0.1:1", "tcp://127.0.0.1:1"),
            ["FILE:10: replication-node.address 'tcp://127.0.0.1:1' was used before, at FILE:7"],
        ),
        (
            HEAD + nodes("tcp://127.0.0.1:0", "tcp://127.0.0.1:70000"),
            ["FILE:7: replication-node.address has port 0; it must be from 1 to 65535",
             "FILE:10: replication-node.address has port 70000; it must be from 1 to 65535"],
        ),
        (
            HEAD + nodes("127.0.0.1:1"),
            ['FILE:7: replication-node.address is "127.0.0.1:1"; it must be tls://HOST:PORT, like'
             ' "tls://one.example.org:61620", or tcp:// on this machine'],
        ),
        (
            HEAD + 'acks = "one"\n' + nodes("tcp://127.0.0.1:1"),
            ["FILE:5: replication: acks is 'one', but there is one node, which has no follower:"
             " nothing would be confirmed; list the others as [[replication-node]], or set"
             ' acks = "none"'],
        ),
        (
            HEAD + "lease = 999\n" + nodes(),
            ["FILE:5: replication.lease is 999; it must be a duration from 1000 ms to 365000 days:"
             ' milliseconds, or a text like "250ms", "30s", "5m", "1h", "30d" or "4w"'],
        ),
        (
            HEAD + 'acks = "two"\n' + nodes(),
            ['FILE:5: replication.acks is "two"; it must be one of "none", "one", "majority",'
             ' "all"'],
        ),
        (
            HEAD + nodes("tcp://127.0.0.1:1", "tcp://b.example.org:1"),
            ["FILE:3: replication: tcp://b.example.org:1 can be reached from other machines, which"
             " needs TLS: write tls:// in all addresses, and give certificate, key and authority"],
        ),
        (
            HEAD + 'listen = "tcp://0.0.0.0:1"\n' + nodes(),
            ["FILE:5: replication: tcp://0.0.0.0:1 can be reached from other machines, which"
             " needs TLS: write tls:// in all addresses, and give certificate, key and authority"],
        ),
        (
            HEAD + FILES + nodes("tcp://127.0.0.1:1", "tls://b:1"),
            ["FILE:3: replication: some addresses begin with tls:// and some with tcp://; write"
             " tls:// in all"],
        ),
        (
            HEAD + nodes("tls://a:1", "tls://b:1", "tls://c:1"),
            ["FILE:1: replication: certificate is missing: tls:// needs certificates of both sides,"
             " in PEM format",
             "FILE:1: replication: authority is missing: tls:// needs certificates of both sides,"
             " in PEM format"],
        ),
        (
            HEAD + 'key = "k"\n' + nodes(),
            ["FILE:5: replication: key is for TLS, which the addresses are without; write tls://"],
        ),
        (
            HEAD + 'path = "p"\n' + nodes(),
            ['FILE:5: replication: path is for arbiter = "file"; remove it, or set that'],
        ),
        (
            HEAD + 'arbiter = "file"\n' + nodes(),
            ['FILE:5: replication: path is missing: arbiter = "file" needs the file of the lease',
             'FILE:4: replication: endpoints is for arbiter = "etcd"; remove it, or set that'],
        ),
        (
            HEAD.replace(ETCD, "") + nodes(),
            ['FILE:1: replication: endpoints is missing: arbiter = "etcd" needs the members of'
             ' etcd, like endpoints = ["https://etcd-1.example.org:2379"]'],
        ),
        (
            HEAD + 'login = "l"\n' + nodes(),
            ["FILE:5: replication: login is given without passcode-file: name the file that has the"
             " passcode"],
        ),
        (
            HEAD + 'passcode-file = "l"\n' + nodes(),
            ["FILE:5: replication: passcode-file is given without login; write it, or remove this"],
        ),
        (
            HEAD.replace("2379", "2379/v3") + nodes(),
            ["FILE:4: replication: endpoints has 'http://127.0.0.1:2379/v3'; it must be http:// or"
             " https://HOST:PORT, and nothing behind it"],
        ),
        (
            HEAD.replace("127", "me:secret@127") + nodes(),
            ["FILE:4: replication: endpoints has a URL with a login; write login and passcode-file"
             " instead"],
        ),
        (
            HEAD.replace('"]', '", "http://127.0.0.1:2379"]') + nodes(),
            ["FILE:4: replication: endpoints has a member twice; remove one of them"],
        ),
        (
            HEAD.replace('"c"', '"c/d"') + nodes(),
            ['FILE:2: replication.cluster is "c/d"; it must be a name without spaces and /'],
        ),
        (
            HEAD + nodes("tcp://127.0.0.1:61613", "tcp://127.0.0.1:1", "tcp://127.0.0.1:2"),
            ["FILE:1: replication: tcp://127.0.0.1:61613 has the port of acceptor 'stomp', 61613;"
             " choose another one"],
        ),
        (
            HEAD + 'nodes = "a"\n' + nodes(),
            ["FILE:5: unknown key 'replication.nodes'; did you mean 'replication.node'?"],
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(write: Writer, text: str, expected: list[str]) -> None:
    found = [each.replace(str(write.path), "FILE") for each in write.problems(text)]
    assert found == expected


@pytest.mark.parametrize("word", ["ftp://h:1", "http://h", "http://:1", "http://[::1", "h:1", " "])
def test_what_is_no_member_of_etcd_is_refused(write: Writer, word: str) -> None:
    (problem,) = write.problems(HEAD.replace("http://127.0.0.1:2379", word) + nodes())
    assert "endpoints has " in problem
    assert "it must be http:// or https://HOST:PORT" in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            HEAD + nodes("tcp://127.0.0.1:1", "tcp://127.0.0.1:2"),
            'FILE:1: replication: of two nodes both must have each event (acks = "majority"): while'
            " one of them is lost, nothing is confirmed; with a third node the other two continue",
        ),
        (
            HEAD.replace("127.0.0.1", "etcd.example.org") + nodes(),
            "FILE:4: replication: http://etcd.example.org:2379 is without TLS: everybody on the way"
            " can read and change who leads; write https://",
        ),
        (
            HEAD.replace("127.0.0.1", "e") + 'login = "l"\npasscode-file = "p"\n' + nodes(),
            "FILE:4: replication: http://e:2379 is without TLS: everybody on the way"
            " can read the passcode, and who leads; write https://",
        ),
        (
            HEAD.replace(ETCD, 'arbiter = "file"\npath = "p"\n')
            + FILES
            + nodes("tls://a:1", "tls://b:1", "tls://c:1"),
            'FILE:4: replication: arbiter = "file" is for nodes on one machine, and others can'
            ' reach these; set arbiter = "etcd"',
        ),
    ],
)
def test_what_looks_wrong_is_a_warning(write: Writer, text: str, expected: str) -> None:
    (warning,) = write.load(text).warnings
    assert warning.replace(str(write.path), "FILE") == expected


def test_two_nodes_without_acks_are_no_surprise(write: Writer) -> None:
    text = HEAD + 'acks = "none"\n' + nodes("tcp://127.0.0.1:1", "tcp://127.0.0.1:2")
    assert write.load(text).warnings == ()


def test_a_reload_changes_nothing_of_it(write: Writer) -> None:
    old = write.load(HEAD + nodes())
    new = write.load(HEAD + 'acks = "all"\n' + nodes().replace(":3", ":4"))
    assert effective(old, new).replication == old.replication
    assert changes(old, new) == (
        [],
        [
            'replication: acks "majority" -> "all"',
            'replication-node c: address "tcp://127.0.0.1:3" -> "tcp://127.0.0.1:4"',
        ],
    )
    assert changes(old, load())[1][0] == "replication: removed"
    assert changes(load(), old)[1][0] == "replication: added"


def test_the_check_reads_certificates_and_counts_nodes(write: Writer, tmp_path: Path) -> None:
    authority = trustme.CA()
    files = {name: tmp_path / name for name in ("ca", "own")}
    authority.cert_pem.write_to_path(str(files["ca"]))
    authority.issue_cert("a").private_key_and_cert_chain_pem.write_to_path(str(files["own"]))
    text = HEAD.replace("http:", "https:") + (
        f'certificate = "{files["own"]}"\nauthority = "{files["ca"]}"\n'
    )
    text += nodes("tls://a:1", "tls://b:1", "tls://c:1")
    config = write.load(text)
    check(config)
    done = CliRunner().invoke(daybook.cli, ["config", "check", str(write.path)])
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith(", 3 nodes\n")
    for name, expected in (("ca", r"\(authority\) cannot be read"), ("own", "is not in PEM")):
        content = files[name].read_bytes()
        files[name].unlink()
        if name == "own":
            files[name].write_text("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
            expected = r"the certificate is damaged|not in PEM"
        with pytest.raises(TlsError, match=rf"^replication: .*(?:{expected})"):
            check(config)
        files[name].write_bytes(content)
    only_etcd = write.load(HEAD.replace("http:", "https:") + 'etcd-authority = "/no"\n' + nodes())
    with pytest.raises(TlsError, match=r"^replication: /no \(etcd-authority\) cannot be read"):
        check(only_etcd)


def test_a_cluster_has_a_limited_number_of_nodes(write: Writer) -> None:
    many = "".join(
        f'[[replication-node]]\nname = "n{port}"\naddress = "tcp://127.0.0.1:{port}"\n'
        for port in range(1, NODES_MAX + 2)
    )
    head = HEAD.replace('"a"', '"n1"')
    assert write.problems(head + many) == [
        f"FILE:3: replication: there are {NODES_MAX + 1} nodes; a cluster has {NODES_MAX} at most"
    ]
