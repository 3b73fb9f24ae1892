"""The container file, the compose file and the Kubernetes manifests: what they name exists, and secrets stay apart."""

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from support.containers import DEPLOY, documents, images
from support.machine import ROOT
from support.manifests import (
    CREDENTIALS,
    KUBERNETES,
    manifest,
    manifests,
    pod_secrets,
    pods,
    service_secrets,
    services,
)  # fmt: skip
from wakegate_console import layout
from wakegate_schema.addresses import Address
from wakegate_schema.setting_sources import CONFIG_VARIABLE, CREDENTIALS_VARIABLE
from wakegate_schema.settings import FILE_ONLY, Settings, load_settings

SECRETS = {"receiver": {"receiver_key"}, "worker": {"worker_key", "wake_secret"}, "harness": set()}
SECRETS["operator"] = {"receiver_key", "worker_key", "provisioner_token"}
PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
IMAGES = images()


def test_every_variable_of_ours_is_a_setting() -> None:
    known = {f"WAKEGATE_{name.upper()}" for name in Settings.model_fields if name not in FILE_ONLY} | {CONFIG_VARIABLE}
    used = {name for image in IMAGES.values() for name in image.environment}
    used |= {env["name"] for spec in pods().values() for each in spec["containers"] for env in each.get("env", ())}
    used |= {name for service in services().values() for name in service.get("environment", {})}
    ours = {name for name in used if name.startswith("WAKEGATE_")}
    assert len(ours) > 5
    assert ours <= known


@pytest.mark.parametrize("stage", ["receiver", "worker"])
def test_an_image_is_one_service_as_its_user_with_settings_that_load(stage: str, tmp_path: Path) -> None:
    image = IMAGES[stage]
    assert (image.entrypoint, image.command) == (("/opt/wakegate/bin/wakegate",), (stage,))
    settings = load_settings(environ={**image.environment, CREDENTIALS_VARIABLE: str(tmp_path)})
    assert (settings.database_path, settings.control_address) == (layout.STORE, layout.CONTROL)
    assert image.environment[CREDENTIALS_VARIABLE] == CREDENTIALS
    made = " ".join(image.runs)
    user = layout.RECEIVER_USER if stage == "receiver" else layout.WORKER_USER
    found = re.search(rf"useradd .*?--uid (\d+) --gid {layout.GROUP} [^&]*{user}", made)
    group = re.search(rf"groupadd .*?--gid (\d+) {layout.GROUP}\b", made)
    assert found
    assert group
    assert image.user == f"{found[1]}:{group[1]}"


def test_the_users_are_the_same_everywhere() -> None:
    for stage in ("receiver", "worker"):
        context = pods()[stage]["securityContext"]
        user = f"{context['runAsUser']}:{context['runAsGroup']}"
        assert IMAGES[stage].user == services()[stage]["user"] == user
        assert f"| {stage} | {user} |" in PAGE


def test_each_is_given_its_own_secrets_only() -> None:
    for name, spec in pods().items():
        (container,) = spec["containers"]
        mounted = pod_secrets(spec)
        given = set().union(*mounted.values()) if mounted else set()
        assert given == SECRETS[name], name
        paths = {mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] in mounted}
        assert paths == ({CREDENTIALS} if given else set())
        assert "envFrom" not in container
        assert all(set(env) == {"name", "value"} for env in container.get("env", ()))
    for name, service in services().items():
        found = service_secrets(service)
        assert set(found.values()) == SECRETS[name], name
        assert all(target == f"{CREDENTIALS}/{source}" for target, source in found.items())


def test_a_secret_is_named_as_the_setting_that_takes_it() -> None:
    settings = {name.removesuffix("_file") for name in Settings.model_fields}
    assert set().union(*SECRETS.values()) - {"provisioner_token"} <= settings


def test_only_receiver_and_worker_and_operator_have_the_store_and_only_the_first_and_harnesses_the_socket() -> None:
    for folder, whose in (
        (layout.STATE, {"receiver", "worker", "operator"}),
        (layout.RUNTIME, {"receiver", "harness"}),
    ):
        having = {
            name
            for name, spec in pods().items()
            for mount in spec["containers"][0]["volumeMounts"]
            if mount["mountPath"] == str(folder)
        }
        assert having == whose
        sharing = {name for name, each in services().items() if any(v.endswith(f":{folder}") for v in each["volumes"])}
        assert sharing == whose - {"harness"}


def test_every_pod_is_nobody_in_particular() -> None:
    for name, spec in pods().items():
        context = spec["securityContext"]
        assert context["runAsNonRoot"] is True, name
        assert context["runAsUser"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False)
        assert spec["containers"][0]["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_every_service_of_the_compose_file_is_too_but_for_the_operators_three_capabilities() -> None:
    for name, service in services().items():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert bool(service.get("cap_add")) == (name == "operator") == service["user"].startswith("0:")


def test_the_ports_are_those_that_the_receiver_listens_on() -> None:
    spec = pods()["receiver"]
    (container,) = spec["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    given = {env["name"]: env["value"] for env in container["env"]}
    assert Address.parse(given["WAKEGATE_LISTEN"]).port == ports["webhooks"] == 8080
    assert Address.parse(given["WAKEGATE_METRICS_LISTEN"]).port == ports["metrics"]
    for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "metrics"}
    (port,) = manifest("Service", "wakegate-receiver")["spec"]["ports"]
    assert port["targetPort"] in ports
    policy = manifest("NetworkPolicy", "wakegate-receiver")["spec"]
    assert {each["port"] for rule in policy["ingress"] for each in rule["ports"]} == set(ports)
    assert services()["receiver"]["ports"] == [f"127.0.0.1:8080:{ports['webhooks']}"]
    for name, value in given.items():
        assert IMAGES["receiver"].environment.get(name, value) == value


def test_what_the_manifests_name_is_there() -> None:
    there = {(each["kind"], each["metadata"]["name"]) for each in manifests()}
    made_by_hand = {"wakegate-receiver", "wakegate-worker", "wakegate-provisioner"}
    for spec in pods().values():
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        assert {mount["name"] for mount in spec["containers"][0]["volumeMounts"]} == set(volumes)
        for volume in volumes.values():
            if "persistentVolumeClaim" in volume:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in there
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in there
    named = set(re.findall(r"secret generic (\S+)", PAGE))
    assert named == made_by_hand == set(_secret_names())


def _secret_names() -> set[str]:
    volumes = [volume for spec in pods().values() for volume in spec["volumes"]]
    direct = {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}
    sources = [source for volume in volumes for source in volume.get("projected", {}).get("sources", [])]
    return direct | {source["secret"]["name"] for source in sources}


def test_selectors_find_the_pods_that_they_are_for() -> None:
    labels = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in manifests()
        if each["kind"] == "Deployment"
    }
    receiver = labels["wakegate-receiver"]
    for each in manifests():
        name, spec = each["metadata"]["name"], each.get("spec", {})
        if each["kind"] == "Deployment":
            assert spec["selector"]["matchLabels"].items() <= labels[name].items()
        if each["kind"] == "Service":
            assert spec["selector"].items() <= labels[name].items()
        if each["kind"] == "NetworkPolicy":
            assert spec["podSelector"]["matchLabels"] == labels[name]
    for name, pod in pods().items():
        if name != "receiver":
            (near,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            assert near["labelSelector"]["matchLabels"] == receiver


def test_the_network_policies_say_who_calls_whom() -> None:
    receiver, worker = (manifest("NetworkPolicy", f"wakegate-{name}")["spec"] for name in ("receiver", "worker"))
    assert (receiver["policyTypes"], receiver["egress"]) == (["Ingress", "Egress"], [])
    assert (worker["policyTypes"], worker["ingress"]) == (["Ingress"], [])


def test_the_settings_load_and_name_the_harness_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "wakegate.toml"
    path.write_text(manifest("ConfigMap", "wakegate-settings")["data"]["wakegate.toml"])
    settings = load_settings(path, {})
    (table,) = settings.harness.values()
    assert table.uid == pods()["harness"]["securityContext"]["runAsUser"]


def test_the_compose_files_settings_load_and_every_container_has_them() -> None:
    settings = load_settings(DEPLOY / "settings" / "wakegate.toml", {})
    assert set(settings.harness) == {"refund-desk"}
    for service in services().values():
        assert "./settings:/etc/wakegate:ro" in service["volumes"]
        assert service["environment"] == {CONFIG_VARIABLE: str(layout.SETTINGS)}


def test_kustomize_applies_what_is_no_example() -> None:
    (document,) = documents(KUBERNETES / "kustomization.yaml")
    files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(document["resources"]) == files - {"provision.yaml", "harness.yaml"}
    assert all(f"`{name}`" in PAGE for name in files)


def test_nothing_that_may_be_a_secret_gets_into_an_image() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line.removeprefix("**/") for line in lines if line and not line.startswith("#")]
    for name in ("wakegate.db", "wakegate.db-wal", "worker.key", "worker.key.old", "wake.secret", "provisioner.token"):
        assert any(fnmatchcase(name, pattern) for pattern in patterns), name
    assert {"secrets", "wakegate.toml", ".git"} <= set(patterns)


def test_what_an_image_is_built_from_is_there() -> None:
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    assert "/source/constraints.txt" in text
    assert (ROOT / "constraints.txt").is_file()
    targets: list[Any] = [service.get("build", {}).get("target") for service in services().values()]
    assert set(targets) - {None} == {"receiver", "worker"} <= set(IMAGES)
    grace = {name: pods()[name]["terminationGracePeriodSeconds"] for name in ("receiver", "worker")}
    assert {name: services()[name]["stop_grace_period"] for name in grace} == {n: f"{s}s" for n, s in grace.items()}
