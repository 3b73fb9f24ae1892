"""The compose file and the Kubernetes manifests, read as what runs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.containers import DEPLOY, Container, Image, documents

KUBERNETES = DEPLOY / "kubernetes"
COMPOSE = DEPLOY / "compose.yaml"
CREDENTIALS = "/run/credentials"


def manifests(folder: Path = KUBERNETES) -> Iterator[dict[str, Any]]:
    """Every Kubernetes object but the kustomization."""
    for path in sorted(folder.glob("*.yaml")):
        if path.name != "kustomization.yaml":
            yield from documents(path)


def manifest(kind: str, name: str) -> dict[str, Any]:
    """One object."""
    (found,) = [each for each in manifests() if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def pods() -> dict[str, dict[str, Any]]:
    """The pods' specifications, by the names of their only containers."""
    specs = [each["spec"]["template"]["spec"] for each in manifests() if each["kind"] in ("Deployment", "Job")]
    found = {}
    for spec in specs:
        (container,) = spec["containers"]
        found[container["name"]] = spec
    return found


def pod_secrets(spec: dict[str, Any]) -> dict[str, set[str]]:
    """The names of the files that a pod's volumes take from Secrets, by volume."""
    found: dict[str, set[str]] = {}
    for volume in spec["volumes"]:
        direct = [volume["secret"]] if "secret" in volume else []
        projected = [each["secret"] for each in volume.get("projected", {}).get("sources", [])]
        for secret in direct + projected:
            found.setdefault(volume["name"], set()).update(item["path"] for item in secret["items"])
    return found


def pod_container(name: str, image: Image, volumes: dict[str, str]) -> Container:
    """A pod's container, with these folders of the machine for its volumes."""
    spec = pods()[name]
    (container,) = spec["containers"]
    context = spec["securityContext"]
    groups = [context[key] for key in ("fsGroup",) if key in context] + context.get("supplementalGroups", [])
    return Container(
        image,
        context["runAsUser"],
        context["runAsGroup"],
        tuple(dict.fromkeys(groups)),
        arguments=tuple(container.get("args", ())) or None,
        environment={each["name"]: each["value"] for each in container.get("env", ())},
        mounts={each["mountPath"]: volumes[each["name"]] for each in container["volumeMounts"]},
    )


def services(compose: Path = COMPOSE) -> dict[str, dict[str, Any]]:
    """A compose file's services."""
    (document,) = documents(compose)
    found: dict[str, dict[str, Any]] = document["services"]
    return found


def service_secrets(service: dict[str, Any]) -> dict[str, str]:
    """A service's secrets: the file in the container, and which it is."""
    return {each["target"]: each["source"] for each in service.get("secrets", ())}


def service_container(
    name: str, image: Image, volumes: dict[str, str], secrets: dict[str, str], compose: Path = COMPOSE
) -> Container:
    """A service's container, with these folders for its volumes and these files for its secrets."""
    service = services(compose)[name]
    uid, gid = map(int, service["user"].split(":"))
    mounted = [each.split(":")[:2] for each in service.get("volumes", ())]
    mounts = {target: volumes[source] for source, target in mounted}
    mounts |= dict.fromkeys(service.get("tmpfs", ()), volumes["scratch"])
    mounts |= {target: secrets[source] for target, source in service_secrets(service).items()}
    capabilities, environment = tuple(service.get("cap_add", ())), service["environment"]
    return Container(
        image, uid, gid, capabilities=capabilities, environment=environment, mounts=mounts,
        arguments=tuple(service["command"]) if "command" in service else None,
    )  # fmt: skip
