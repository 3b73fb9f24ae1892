"""The containers, as far as they run without an engine: the images' own commands, users, mounts, secrets, and a call.

Each has a namespace as its file says: what it may write, which secrets it sees, which user it is.
"""

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pytest

from support.containers import DEPLOY, SECRETS, VOLUMES, Container, Image, build, images, secret_volume
from support.installed import CALL, TOOLS
from support.machine import PYTHON, ROOT, WAKEGATE, Machine, Who, machine
from support.manifests import manifest, pod_container, pod_secrets, pods, service_container

Kind = Literal["compose", "kubernetes"]
PATIENCE_S = 90.0
PROVIDER = Who(61_003, 61_003)
GROUP = 10_001
READY = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9464/readyz', timeout=5).status)"
WHERE = {"https://approvals.example": "http://127.0.0.1:8081", "https://wakegate.example": "http://127.0.0.1:8080"}
SEEN = """
import json, os
tops = ("/etc/wakegate", "/opt", "/run", "/var/lib")
found = [os.path.join(at, name) for top in tops for at, _, names in os.walk(top)
         if not at.startswith(("/opt/source", "/opt/packages", "/opt/python")) for name in names]
print(json.dumps([path for path in found if os.access(path, os.R_OK) and ("_key" in path or "_secret" in path
                  or "token" in path or "wakegate.db" in path)]))
"""
WRITE = """
for path in ("/x", "/etc/x", "/etc/wakegate/x", "/opt/tools/x", "/run/x", "/run/credentials/x", "/var/lib/x"):
    try:
        open(path, "w")
    except OSError as error:
        assert error.strerror in ("Read-only file system", "Permission denied"), error
    else:
        raise SystemExit(path)
"""


@dataclass
class Pod:
    """A machine that stands for the node or the host, and the containers on it."""

    kind: Kind
    machine: Machine
    images: dict[str, Image]
    volumes: dict[str, str]
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def container(self, name: str) -> Container:
        """A container as its file says."""
        image = self.images["receiver" if name == "operator" else name]
        if self.kind == "compose":
            secrets = {each.name: str(Path(SECRETS, each.name)) for each in self.machine.outside(SECRETS).iterdir()}
            return service_container(name, image, self.volumes, secrets)
        credentials = f"{VOLUMES}/{name}-credentials"
        return pod_container(name, image, self.volumes | {"credentials": credentials})

    def harness(self) -> Container:
        """A harness's."""
        if self.kind == "kubernetes":
            return pod_container("harness", Image(), self.volumes)
        return Container(Image(), 10_100, 10_100, (10_003,), mounts={"/run/wakegate": self.volumes["control"]})

    def run(self, container: Container, *command: str) -> str:
        """Run a command in a container of its own, which must be fine, and return what it says."""
        done = self.machine.run(*container.command(*command))
        assert done.returncode == 0, done.stdout + done.stderr + self.log("receiver")
        return done.stdout

    def start(self, name: str) -> None:
        """Start a service."""
        log = self.machine.top / f"{name}.log"
        self.running[name] = self.machine.start(*self.container(name).command(), log=log)

    def log(self, name: str) -> str:
        """What a service has said."""
        path = self.machine.top / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def until(self, *command: str) -> None:
        """Wait until a command is fine."""
        until = time.monotonic() + PATIENCE_S
        while self.machine.run(*command).returncode:
            assert time.monotonic() < until, self.log("receiver")
            assert all(process.poll() is None for process in self.running.values()), self.log("receiver")
            time.sleep(0.3)


@contextmanager
def running(kind: Kind) -> Iterator[Pod]:
    """Build the images, make volumes and secrets as the page says, and start provider, receiver and worker."""
    found = images()
    for stage in ("receiver", "worker"):
        found[stage] = replace(found[stage], environment=found[stage].environment | {"WAKEGATE_TOOLS": "my_tools"})
    with machine(network=True) as made, ExitStack() as ending:
        build(made, found["base"])
        made.outside("/opt/tools/my_tools.py").write_text(TOOLS)
        made.run("chmod", "0644", "/opt/tools/my_tools.py")
        pod = Pod(kind, made, found, {})
        ending.callback(_end, pod)
        _start_provider(pod)
        _make_secrets(pod)
        pod.volumes = _volumes(pod)
        pod.start("receiver")
        pod.until(PYTHON, "-c", READY)
        pod.start("worker")
        pod.run(_provisioning(pod))
        yield pod


def _end(pod: Pod) -> None:
    for process in pod.running.values():
        if process.poll() is None:
            process.terminate()
    for process in pod.running.values():
        process.wait(PATIENCE_S)


def _start_provider(pod: Pod) -> None:
    made = pod.machine
    made.run("sh", "-ec", f"install -d -o {PROVIDER.uid} -g {PROVIDER.gid} /var/lib/provider")
    policy = made.outside("/var/lib/provider/policy.toml")
    policy.write_text('[[rule]]\ntool = "*"\ndecision = "approve"\n')
    pod.running["provider"] = made.start(
        WAKEGATE, "provider", who=PROVIDER, cwd="/var/lib/provider", log=made.top / "provider.log",
        WAKEGATE_PROVIDER_POLICY_FILE="policy.toml",
    )  # fmt: skip
    pod.until("test", "-f", "/var/lib/provider/provisioner.token")


def _make_secrets(pod: Pod) -> None:
    """Run the page's own lines, up to where the engine comes in."""
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```sh\n(umask 077.*?)docker compose", page, flags=re.DOTALL)
    script = block.replace("PROVISIONER_TOKEN_FILE", "/var/lib/provider/provisioner.token")
    done = pod.machine.run("sh", "-ec", f"mkdir deploy\n{script}", cwd="/opt")
    assert done.returncode == 0, done.stderr


def _volumes(pod: Pod) -> dict[str, str]:
    """Make the volumes: a compose file's begin as the image has the folder, a claim's is given to the pods' group."""
    folders = {name: f"{VOLUMES}/{name}" for name in ("store", "control", "scratch")}
    if pod.kind == "compose":
        lines = [f"cp -a /var/lib/wakegate {folders['store']}", f"cp -a /run/wakegate {folders['control']}"]
    else:
        lines = [f"install -d -o 0 -g {GROUP} -m 2775 {folders[name]}" for name in ("store", "control")]
    lines += [f"install -d -m 1777 {folders['scratch']}", f"install -d -m 0755 {VOLUMES}/settings"]
    done = pod.machine.run("sh", "-ec", "\n".join([f"mkdir {VOLUMES}", *lines]))
    assert done.returncode == 0, done.stderr
    text = (DEPLOY / "settings" / "wakegate.toml").read_text()
    if pod.kind == "kubernetes":
        text = manifest("ConfigMap", "wakegate-settings")["data"]["wakegate.toml"]
        for name, spec in pods().items():
            keys = pod_secrets(spec).get("credentials", set())
            secret_volume(pod.machine, f"{name}-credentials", {key: f"{SECRETS}/{key}" for key in keys}, GROUP)
    settings = pod.machine.outside(f"{VOLUMES}/settings/wakegate.toml")
    settings.write_text(text)
    settings.chmod(0o644)
    return folders | {"settings": f"{VOLUMES}/settings", "./settings": f"{VOLUMES}/settings"}


def _provisioning(pod: Pod) -> Container:
    """The operator's container with its command: the manifest's own, or the page's."""
    container = pod.container("operator")
    arguments = container.arguments
    if arguments is None:
        page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
        (line,) = re.findall(r"run --rm operator (instance provision .*?)\n```", page, flags=re.DOTALL)
        arguments = tuple(line.replace("\\\n", " ").split())
    for written, here in WHERE.items():
        arguments = tuple(each.replace(written, here) for each in arguments)
    return replace(container, arguments=arguments)


@pytest.mark.parametrize("kind", ["compose", "kubernetes"])
def test_a_call_goes_through_containers_that_see_their_own_secrets_only(kind: Kind) -> None:
    with running(kind) as pod:
        status, said = json.loads(pod.run(pod.harness(), PYTHON, "-c", CALL, "one"))
        assert (status, said["state"]) == (200, "succeeded"), f"{said} {pod.log('worker')}"
        seen = {name: json.loads(pod.run(pod.container(name), PYTHON, "-c", SEEN)) for name in ("receiver", "worker")}
        credentials = {
            name: {Path(path).name for path in paths if "credentials" in path} for name, paths in seen.items()
        }
        assert credentials == {"receiver": {"receiver_key"}, "worker": {"worker_key", "wake_secret"}}
        assert all("/var/lib/wakegate/wakegate.db" in paths for paths in seen.values())
        assert json.loads(pod.run(pod.harness(), PYTHON, "-c", SEEN)) == []
        for container in (pod.container("receiver"), pod.container("worker"), pod.harness()):
            pod.run(container, PYTHON, "-c", WRITE)
        listed = pod.run(pod.container("receiver"), WAKEGATE, "execution", "list", "--json")
        assert [call["state"] for call in json.loads(listed)] == ["succeeded"]
        for name in ("worker", "receiver"):
            pod.running[name].send_signal(signal.SIGTERM)
            assert pod.running[name].wait(PATIENCE_S) == 0, pod.log(name)
