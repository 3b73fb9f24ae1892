"""The example of four receivers and eight workers: what its files name exists, and each has its own secrets only."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.containers import documents, images
from support.machine import ROOT
from support.manifests import CREDENTIALS, manifests, pod_secrets, service_secrets, services
from support.scale import COMPOSE, SCALE
from wakegate_receiver.stopping import longest_stop
from wakegate_schema.addresses import Address
from wakegate_schema.queue import QueueLocation
from wakegate_schema.setting_sources import CONFIG_VARIABLE, CREDENTIALS_VARIABLE
from wakegate_schema.settings import FILE_ONLY, Settings, load_settings
from wakegate_worker.tool_modules import load_tools

KUBERNETES = SCALE / "kubernetes"
PAGE = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
KEYS = {"receiver": {"receiver_key"}, "worker": {"worker_key", "wake_secret"}, "migrate": set[str]()}
KEYS["operator"] = {"receiver_key", "worker_key", "provisioner_token"}
BOTH = {"database_password", "queue_password"}
OURS = [name for name, each in services(COMPOSE).items() if each["image"].startswith("wakegate-")]
WORKER_STOP_S = 39
"""What docs/deployment.md says that a worker's stop takes beyond its tools' longest timeout."""


def kind(name: str) -> str:
    """Which service a container or a replica is."""
    return name.partition("-")[0]


def pods() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Every container of ours: its name, its pod and itself."""
    for each in manifests(KUBERNETES):
        spec = each.get("spec", {}).get("template", {}).get("spec", {})
        for container in spec.get("containers", ()):
            if kind(container["name"]) in KEYS:
                yield container["name"], spec, container


def test_there_are_four_receivers_and_eight_workers_in_two_pools_with_different_tools() -> None:
    for names in (OURS, [name for name, _, _ in pods()]):
        assert {name for name in names if kind(name) == "worker"} == {"worker-refunds", "worker-mail"}
    found = services(COMPOSE)
    assert sum(kind(name) == "receiver" for name in OURS) == 4
    workers = [found[name] for name in OURS if kind(name) == "worker"]
    assert sum(each["deploy"]["replicas"] for each in workers) == 8
    assert len({each["environment"]["WAKEGATE_POOL"] for each in workers}) == 2
    assert len({each["environment"]["WAKEGATE_TOOLS"] for each in workers}) == 2
    replicas = {each["metadata"]["name"]: each["spec"]["replicas"] for each in manifests(KUBERNETES) if _deployed(each)}
    assert replicas == {"wakegate-receiver": 4, "wakegate-worker-refunds": 4, "wakegate-worker-mail": 4}


def _deployed(each: dict[str, Any]) -> bool:
    name = str(each["metadata"]["name"])
    return each["kind"] == "Deployment" and name.startswith(("wakegate-receiver", "wakegate-worker"))


def test_every_variable_of_ours_is_a_setting_and_what_it_says_loads(tmp_path: Path) -> None:
    known = {f"WAKEGATE_{name.upper()}" for name in Settings.model_fields if name not in FILE_ONLY} | {CONFIG_VARIABLE}
    given = [services(COMPOSE)[name]["environment"] for name in OURS]
    given += [{each["name"]: each["value"] for each in container["env"]} for _, _, container in pods()]
    for environment in given:
        assert set(environment) <= known
        values = {name: value for name, value in environment.items() if name != CONFIG_VARIABLE}
        settings = load_settings(environ={**values, CREDENTIALS_VARIABLE: str(tmp_path)})
        assert settings.store.is_postgresql
        if "WAKEGATE_QUEUE" in values:
            assert settings.store.queue != QueueLocation()


def test_the_settings_files_load(tmp_path: Path) -> None:
    assert load_settings(SCALE / "settings" / "wakegate.toml", {}).harness.keys() == {"refund-desk"}
    (text,) = [each["data"]["wakegate.toml"] for each in manifests(KUBERNETES) if each["kind"] == "ConfigMap"]
    (tmp_path / "wakegate.toml").write_text(text)
    settings = load_settings(tmp_path / "wakegate.toml", {})
    assert settings.store.queue != QueueLocation()
    (harness,) = [each for each in manifests(KUBERNETES) if each["metadata"]["name"] == "refund-desk"]
    first, second = harness["spec"]["template"]["spec"]["containers"]
    assert first["securityContext"]["runAsUser"] == settings.harness["refund-desk"].uid
    assert [mount["name"] for mount in first["volumeMounts"]] == ["control"]
    assert second["name"] == "receiver"


def test_a_receiver_has_the_signing_key_and_a_worker_the_credentials_key_and_both_a_password_of_their_own() -> None:
    files = documents(COMPOSE)[0]["secrets"]
    for name in OURS:
        found = service_secrets(services(COMPOSE)[name])
        assert {target.removeprefix(f"{CREDENTIALS}/") for target in found} - BOTH == KEYS[kind(name)], name
        password = files[found[f"{CREDENTIALS}/database_password"]]["file"]
        assert password == f"secrets/{kind(name) if kind(name) in ('receiver', 'worker') else 'owner'}_password"
    for name, spec, container in pods():
        assert set().union(*pod_secrets(spec).values()) - BOTH == KEYS[kind(name)], name
        having = {mount["name"] for mount in container["volumeMounts"]}
        assert "credentials" in having
        assert {volume["name"] for volume in spec["volumes"]} >= having
    users = {name: re.findall(r"//(\w+)@", str(services(COMPOSE)[name]["environment"])) for name in OURS}
    assert {users[name][-1] for name in OURS if kind(name) == "receiver"} == {"wakegate_receiver"}
    assert {users[name][-1] for name in OURS if kind(name) == "worker"} == {"wakegate_worker"}


def test_receivers_reach_nobody_outside_and_workers_are_reached_by_nobody() -> None:
    networks = documents(COMPOSE)[0]["networks"]
    closed = {name for name, each in networks.items() if each.get("internal")}
    for name in OURS:
        having = set(services(COMPOSE)[name]["networks"])
        assert having <= closed if kind(name) == "receiver" else "incoming" not in having
    policies = {
        each["metadata"]["name"]: each["spec"] for each in manifests(KUBERNETES) if each["kind"] == "NetworkPolicy"
    }
    assert policies["wakegate-worker"]["ingress"] == []
    ports = [port["port"] for rule in policies["wakegate-receiver"]["egress"] for port in rule["ports"]]
    assert ports == [5432, 6379, 53, 53]
    assert all("to" in rule for rule in policies["wakegate-receiver"]["egress"])


def test_every_container_is_locked_down() -> None:
    for name, service in services(COMPOSE).items():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service.get("cap_add", []) == (["DAC_OVERRIDE"] if name == "operator" else [])
    for name, spec, container in pods():
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False)
        own = container["securityContext"]
        assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
        assert own["capabilities"] == {"drop": ["ALL"]}


def test_the_users_are_the_images() -> None:
    found = images()
    for name in OURS:
        if kind(name) in ("receiver", "worker"):
            assert services(COMPOSE)[name]["user"] == found[kind(name)].user
    for name, spec, container in pods():
        context = spec["securityContext"] | container["securityContext"]
        image = found["worker" if kind(name) == "worker" else "receiver"]
        assert f"{context['runAsUser']}:{context['runAsGroup']}" == image.user


def test_a_stop_has_the_time_that_the_code_takes() -> None:
    receiver = longest_stop(Settings().shutdown_timeout)
    for name in OURS:
        grace = int(services(COMPOSE)[name].get("stop_grace_period", "0s").removesuffix("s"))
        assert grace >= {"receiver": receiver, "worker": 30 + WORKER_STOP_S}.get(kind(name), 0)
    for name, spec, container in pods():
        before = int(container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [0, 0])[1])
        if kind(name) in ("receiver", "worker"):
            needed = receiver if kind(name) == "receiver" else 30 + WORKER_STOP_S
            assert spec["terminationGracePeriodSeconds"] >= before + needed
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    assert f"the longest timeout + {WORKER_STOP_S} s" in page


def test_probes_and_checks_ask_the_metrics_address() -> None:
    (receiver,) = [each for name, spec, each in pods() if name == "receiver" and "lifecycle" in each]
    ports = {port["name"]: port["containerPort"] for port in receiver["ports"]}
    given = {each["name"]: each["value"] for each in receiver["env"]}
    assert Address.parse(given["WAKEGATE_METRICS_LISTEN"]).port == ports["metrics"]
    assert Address.parse(given["WAKEGATE_LISTEN"]).port == ports["webhooks"]
    for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert receiver[probe]["httpGet"] == {"path": path, "port": "metrics"}
    text = (SCALE / "haproxy.cfg").read_text(encoding="utf-8")
    assert "option httpchk GET /readyz" in text
    assert f"check port {ports['metrics']} " in text
    assert re.findall(r"server (\S+) (\S+)", text)[-4:] == [
        (f"receiver-{n}", f"receiver-{n}:8080") for n in range(1, 5)
    ]
    assert "retry-on conn-failure\n" in text
    assert f"path {Settings().events_path} " in text
    assert images()["receiver"].environment["WAKEGATE_METRICS_LISTEN"].endswith(f":{ports['metrics']}")


def test_budgets_and_selectors_find_their_pods() -> None:
    labels = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in manifests(KUBERNETES)
        if each["kind"] in ("Deployment", "Job")
    }
    budgets = {
        each["metadata"]["name"]: each["spec"]
        for each in manifests(KUBERNETES)
        if each["kind"] == "PodDisruptionBudget"
    }
    assert budgets.keys() == {name for name in labels if name.startswith(("wakegate-receiver", "wakegate-worker"))}
    for name, spec in budgets.items():
        assert spec == {"maxUnavailable": 1, "selector": {"matchLabels": labels[name]}}
    for each in manifests(KUBERNETES):
        if each["kind"] == "Service":
            assert each["spec"]["selector"] == labels[each["metadata"]["name"]]
        if each["kind"] == "Deployment":
            assert each["spec"]["selector"]["matchLabels"].items() <= labels[each["metadata"]["name"]].items()
    (queue,) = [
        each["spec"]
        for each in manifests(KUBERNETES)
        if each["metadata"]["name"] == "wakegate-queue" and "ingress" in each["spec"]
    ]
    wanted = [source["podSelector"]["matchLabels"].items() for rule in queue["ingress"] for source in rule["from"]]
    speaking = [
        each["spec"]["template"] for each in manifests(KUBERNETES) if "queue_password" in str(each.get("spec", {}))
    ]
    assert all(any(one <= each["metadata"]["labels"].items() for one in wanted) for each in speaking)
    assert len(speaking) == 5


def test_what_is_mounted_is_there_and_every_secret_is_made_by_the_script() -> None:
    (document,) = documents(COMPOSE)
    script = (SCALE / "secrets.sh").read_text(encoding="utf-8")
    for each in document["secrets"].values():
        name = Path(each["file"]).name
        assert name in script or name.replace("_password", "") in script, name
    for service in document["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (SCALE / source).exists() if source.startswith("./") else source in document["volumes"]
        for secret in service.get("secrets", ()):
            assert (secret if isinstance(secret, str) else secret["source"]) in document["secrets"]


@pytest.mark.parametrize("pool", ["refunds", "mail"])
def test_a_pools_tools_load(pool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCALE / "tools" / pool))
    assert len(load_tools((pool,))) == 1


def test_kustomize_applies_what_is_no_example_and_the_page_tells_of_the_rest() -> None:
    (document,) = documents(KUBERNETES / "kustomization.yaml")
    files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(document["resources"]) == files - {"migrate.yaml", "provision.yaml", "harness.yaml"}
    texts = [str(each) for each in manifests(KUBERNETES)]
    named = {found for text in texts for found in re.findall(r"'secret(?:Name': |': {'name': )'([\w-]+)'", text)}
    assert named == set(re.findall(r"secret generic (\S+)", PAGE))
