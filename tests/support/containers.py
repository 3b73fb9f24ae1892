"""Containers without an engine: what the container files say, carried out in mount namespaces of one machine.

An image's `RUN` lines run as root there; a container sees its own volumes and secrets and nothing else that is to be
written, runs as its user without capabilities, and executes the very entry point and command.
"""

import functools
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from support.machine import ROOT, Machine

DEPLOY = ROOT / "deploy"
VOLUMES, SECRETS = "/opt/volumes", "/opt/deploy/secrets"
_KEPT_ELSEWHERE = (VOLUMES, SECRETS)
"""What no container sees but where it is mounted."""


@dataclass
class Image:
    """A stage of the container file."""

    environment: dict[str, str] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)
    user: str = "0:0"
    folder: str = "/"
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


@dataclass
class Container:
    """What runs: an image's program as a user, with volumes and secrets."""

    image: Image
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    capabilities: tuple[str, ...] = ()
    arguments: tuple[str, ...] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    mounts: dict[str, str] = field(default_factory=dict)
    """Where each folder or file of the machine is seen."""

    def command(self, *program: str) -> list[str]:
        """The command that sets the container up, as root, and becomes its program, or another one."""
        started = program or (
            *self.image.entrypoint,
            *(self.image.command if self.arguments is None else self.arguments),
        )
        own = "mkdir -p /run/credentials; mount -t tmpfs -o mode=0755 none /run/credentials"
        lines = ["set -e", own, *(_mount(target, source) for target, source in self.mounts.items())]
        lines += [f"mount -t tmpfs none {each}" for each in _KEPT_ELSEWHERE]
        lines += [f"mount -o remount,bind,ro {each}" for each in ("/", "/etc", "/opt", "/var/lib", "/run")]
        environment = {**self.image.environment, **self.environment}
        bounding = "".join(f",+{each.lower()}" for each in self.capabilities)
        user = f"setpriv --reuid {self.uid} --regid {self.gid} {_groups(self.groups)} --no-new-privs"
        words = [*(f"{name}={value}" for name, value in environment.items()), *started]
        lines.append(f"cd {self.image.folder}")
        lines.append(f"exec {user} --bounding-set=-all{bounding} --inh-caps=-all env -i {shlex.join(words)}")
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(lines)]


def images() -> dict[str, Image]:
    """Every stage of the container file by its name."""
    found: dict[str, Image] = {}
    image = Image()
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            before = found.get(base, Image())
            image = found[name] = Image(
                dict(before.environment), list(before.runs), before.user, before.folder, before.entrypoint
            )
        elif word == "ENV":
            name, _, value = rest.partition("=")
            image.environment[name] = value
        elif word == "RUN":
            image.runs.append(rest)
        elif word == "USER":
            image.user = rest
        elif word == "WORKDIR":
            image.folder = rest
        elif word == "ENTRYPOINT":
            image.entrypoint = tuple(json.loads(rest))
        elif word == "CMD":
            image.command = tuple(json.loads(rest))
        else:
            assert word in ("", "ARG", "COPY", "EXPOSE", "STOPSIGNAL"), line
    return found


class _Strict(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping, which YAML forbids and the library lets pass."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        written = [self.construct_object(key, deep=True) for key, _ in node.value if key.value != "<<"]
        assert len(written) == len(set(written)), f"{node.start_mark}: a key stands twice"
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


@functools.cache
def documents(path: Path) -> list[dict[str, Any]]:
    """The documents of a YAML file; nobody changes them."""
    return list(yaml.load_all(path.read_text(encoding="utf-8"), _Strict))


def build(made: Machine, image: Image) -> None:
    """Carry out an image's `RUN` lines, but for those of the program, which is there."""
    made.outside("/opt/tools").mkdir(exist_ok=True)
    for run in image.runs:
        done = made.run("sh", "-ec", run)
        assert done.returncode == 0, f"{run}: {done.stderr}"


def secret_volume(made: Machine, name: str, secrets: Mapping[str, str], gid: int) -> str:
    """Make a folder as Kubernetes mounts a Secret: links into a dated folder, files that the pod's group reads."""
    folder = f"{VOLUMES}/{name}"
    lines = [f"mkdir -p {folder}/..2026", f"ln -s ..2026 {folder}/..data"]
    for key, source in secrets.items():
        lines += [f"install -m 0440 -o 0 -g {gid} {source} {folder}/..2026/{key}", f"ln -s ..data/{key} {folder}/{key}"]
    done = made.run("sh", "-ec", "\n".join([*lines, f"chown -h 0:{gid} {folder}", f"chmod 2755 {folder}"]))
    assert done.returncode == 0, done.stderr
    return folder


def _mount(target: str, source: str) -> str:
    made = f"mkdir -p {Path(target).parent}; [ -d {source} ] && mkdir -p {target} || touch {target}"
    return f"{made}; mount --bind {source} {target}"


def _groups(groups: tuple[int, ...]) -> str:
    return f"--groups {','.join(map(str, groups))}" if groups else "--clear-groups"
