"""The cluster for Kubernetes: its commands, flags and settings exist, and its parts fit."""

from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from daybook.server.configuration.config import Config, load
from tests.meta import tree
from tests.meta.release.test_container import DOCKERFILE, parse

PARTS = list(yaml.safe_load_all((tree.ROOT / "etc" / "kubernetes.yaml").read_text("utf-8")))
MANIFEST = {(each["kind"], each["metadata"]["name"]): each for each in PARTS}
SET = MANIFEST["StatefulSet", "daybook"]["spec"]
POD = SET["template"]["spec"]
(CONTAINER,) = POD["containers"]
PORTS = {each["name"]: each["containerPort"] for each in CONTAINER["ports"]}
PODS = [f"daybook-{number}" for number in range(SET["replicas"])]


def configured(folder: Path, pod: str) -> Config:
    """Return the configuration of a pod, as its command line reads it."""
    file = folder / "broker.toml"
    file.write_text(MANIFEST["ConfigMap", "daybook"]["data"]["broker.toml"], "utf-8")
    (given,) = [each for each in CONTAINER["args"] if each.startswith("--set=")]
    return load(file, [given.removeprefix("--set=").replace("$(POD_NAME)", pod)])


def test_its_command_line_is_one_of_ours() -> None:
    assert 'ENTRYPOINT ["daybook"]' in DOCKERFILE
    assert "command" not in CONTAINER
    parse([each.replace("$(POD_NAME)", PODS[0]) for each in CONTAINER["args"]])
    (name,) = [each for each in CONTAINER["env"] if each["name"] == "POD_NAME"]
    assert name["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"


@pytest.mark.parametrize("pod", PODS)
def test_each_pod_is_a_node_at_its_name_in_the_headless_service(tmp_path: Path, pod: str) -> None:
    found = configured(tmp_path, pod)
    # Probes come from the machine of the pod, and show no passcode.
    (warning,) = found.warnings
    assert warning.startswith("acceptor 'monitoring' listens on 0.0.0.0 without TLS")
    assert found.replication is not None
    assert found.replication.node == pod
    service = SET["serviceName"]
    assert {name: str(place) for name, place in found.replication.nodes.items()} == {
        each: f"tls://{each}.{service}:{PORTS['nodes']}" for each in PODS
    }
    assert str(found.replication.listen) == f"tls://0.0.0.0:{PORTS['nodes']}"
    headless = MANIFEST["Service", service]["spec"]
    assert headless["clusterIP"] == "None"
    # Nodes that follow are not ready, and must be found all the same.
    assert headless["publishNotReadyAddresses"] is True


def test_services_lead_to_the_ports_at_which_it_listens(tmp_path: Path) -> None:
    found = configured(tmp_path, PODS[0])
    assert found.replication is not None
    listened = {each.port for each in found.acceptors} | {found.replication.listen.port}
    assert set(PORTS.values()) == listened
    for name in ("daybook", "daybook-nodes"):
        spec = MANIFEST["Service", name]["spec"]
        assert spec["selector"] == SET["template"]["metadata"]["labels"]
        assert spec["selector"] == SET["selector"]["matchLabels"]
        for each in spec["ports"]:
            assert PORTS[each["targetPort"]] == each["port"]
    clients = {each["targetPort"] for each in MANIFEST["Service", "daybook"]["spec"]["ports"]}
    assert clients == PORTS.keys() - {"nodes", "probe"}


def test_files_of_the_configuration_are_in_volumes(tmp_path: Path) -> None:
    found = configured(tmp_path, PODS[0])
    assert found.replication is not None
    mounts = {each["name"]: PurePosixPath(each["mountPath"]) for each in CONTAINER["volumeMounts"]}
    claimed = {each["metadata"]["name"] for each in SET["volumeClaimTemplates"]}
    assert mounts.keys() == {each["name"] for each in POD["volumes"]} | claimed
    assert PurePosixPath(found.broker.data_directory).is_relative_to(mounts["data"])
    assert PurePosixPath(found.broker.users_file).is_relative_to(mounts["users"])
    files = [found.replication.certificate, found.replication.key, found.replication.authority]
    files += [file for each in found.acceptors for file in (each.certificate, each.key) if file]
    secret = "".join(_head_of("etc/kubernetes.yaml"))
    for file in map(PurePosixPath, files):
        assert file.is_relative_to(mounts["tls"])
        assert f"--from-file={file.name}" in secret
    (config,) = [each for each in CONTAINER["args"] if each.startswith("--config=")]
    assert config == f"--config={mounts['config']}/broker.toml"


def test_probes_and_times_are_those_of_the_page() -> None:
    page = (tree.ROOT / "docs" / "monitoring.md").read_text("utf-8")
    pod: dict[str, Any] = yaml.safe_load(
        page.partition("```yaml\nports:")[2].partition("startupProbe:")[1]
        + page.partition("startupProbe:")[2].partition("```")[0]
    )
    for name in ("startupProbe", "livenessProbe"):
        assert CONTAINER[name] == pod[name]
    assert CONTAINER["readinessProbe"]["httpGet"] == pod["readinessProbe"]["httpGet"]
    assert POD["terminationGracePeriodSeconds"] == pod["terminationGracePeriodSeconds"]


def test_no_rollout_waits_until_a_follower_is_ready() -> None:
    assert SET["podManagementPolicy"] == "Parallel"
    assert SET["updateStrategy"] == {"type": "OnDelete"}


def test_it_runs_as_the_user_of_the_image() -> None:
    assert POD["securityContext"]["runAsUser"] == POD["securityContext"]["fsGroup"] == 10001
    assert "--uid 10001" in DOCKERFILE


def _head_of(name: str) -> list[str]:
    """Return the comment at the head of a file."""
    lines = (tree.ROOT / name).read_text("utf-8").splitlines()
    return lines[: lines.index("")]
