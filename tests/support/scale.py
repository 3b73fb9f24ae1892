"""`deploy/scale/compose.yaml` without an engine: each of its containers on a host of its own, the servers too.

A name of the compose file is a name there: the hosts' addresses stand in the /etc/hosts that all of them see.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import redis

from support.certificates import certificate
from support.containers import DEPLOY, SECRETS, VOLUMES, Container, Image, build, images
from support.hosts import Hosts
from support.machine import Machine, Who, machine
from support.manifests import service_container, services
from support.servers import binaries
from support.servers.postgresql import PostgresServer
from support.servers.process import NOBODY, ServerProcess
from wakegate_schema.store.location import StoreLocation

SCALE = DEPLOY / "scale"
COMPOSE = SCALE / "compose.yaml"
WORLD = "wakegate.example"
"""The name by which providers know the balancer."""
PROVIDER = "provider"
"""A host without a service: for the test's own provider, whose certificate is the balancer's too."""
TRUSTED = "/etc/provider.crt"
"""Where the containers see that certificate."""
PATIENCE_S = 90.0


@dataclass
class Site:
    """What runs, by the names of the compose file; a service's replicas have numbers."""

    machine: Machine
    hosts: Hosts
    folder: Path
    images: dict[str, Image]
    volumes: dict[str, str] = field(default_factory=dict)
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    primary: PostgresServer | None = None
    store: StoreLocation | None = None
    """For the test itself, through the primary's Unix socket."""
    standby: ServerProcess | None = None
    queue: "redis.Redis | None" = None

    def secret(self, name: str) -> Path:
        """Where a secret's file is seen from here."""
        return self.machine.outside(SECRETS) / name

    def inside(self, host: str) -> tuple[str, ...]:
        """A command that runs another one on a host, where the names are known."""
        return (*self.hosts[host].prefix, "nsenter", f"--target={self.machine.pid}", "--mount")

    def container(self, name: str) -> Container:
        """A service's container as its file says."""
        secrets = {each.name: str(Path(SECRETS, each.name)) for each in self.machine.outside(SECRETS).iterdir()}
        stage = "worker" if name.startswith("worker") else "receiver"
        return service_container(name, self.images[stage], self.volumes, secrets, COMPOSE)

    def command(self, name: str, host: str, *program: str, environment: Mapping[str, str] | None = None) -> list[str]:
        """The command that runs a service's container on a host."""
        container = self.container(name)
        container.environment = container.environment | dict(environment or {})
        return [*self.hosts[host].prefix, *self.machine.command(*container.command(*program))]

    def run(self, name: str, *program: str) -> str:
        """Run a service, or another program in its container, to its end, which must be good; return what it says."""
        done = subprocess.run(self.command(name, name, *program), capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, name: str, number: int | None = None, **environment: str) -> None:
        """Start a service, or one of its replicas."""
        host = name if number is None else f"{name}-{number}"
        with (self.folder / f"{host}.log").open("ab") as log:
            self.running[host] = subprocess.Popen(
                self.command(name, host, environment=environment), stdout=log, stderr=log
            )

    def kill(self, host: str) -> None:
        """End what runs on a host by SIGKILL."""
        process = self.running.pop(host)
        process.kill()
        process.wait()

    def fail_over(self) -> None:
        """Lose the primary and promote the standby, which the store is from now on."""
        assert self.primary is not None
        assert self.standby is not None
        self.primary.kill()
        self.standby.run([str(self.primary.bin_folder / "pg_ctl"), "promote", f"--pgdata={self.standby.folder}/data"])
        assert self.store is not None
        url = self.store.url.replace(str(self.primary.folder), str(self.standby.folder))
        self.store = replace(self.store, url=url)

    def end(self) -> dict[str, int]:
        """Ask everything to end, and return the exit codes; what is not asked twice has ended already."""
        for process in self.running.values():
            process.terminate()
        codes = {host: process.wait(PATIENCE_S) for host, process in self.running.items()}
        self.running.clear()
        return codes

    def log(self, host: str) -> str:
        """What has been logged on a host."""
        path = self.folder / f"{host}.log"
        return path.read_text() if path.exists() else ""

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds."""
        ends = time.monotonic() + PATIENCE_S
        while not holds():
            ended = [host for host, process in self.running.items() if process.poll() is not None]
            assert not ended, f"{ended[0]} ended:\n{self.log(ended[0])}"
            assert time.monotonic() < ends, f"{what}:\n" + "".join(self.log(host)[-800:] for host in self.running)
            time.sleep(0.1)


@contextmanager
def site(workers: Mapping[str, int], settings: str, tools: Mapping[str, str]) -> Iterator[Site]:
    """Bring up database, standby, queue and balancer, migrate, and start four receivers and so many workers.

    Args:
        workers: how many of each pool.
        settings: lines to begin the settings file with.
        tools: the text of each pool's module, in place of the example's.
    """
    if binaries.program("haproxy") is None:
        binaries.missing("HAProxy", "apt-get install haproxy")
    found = services(COMPOSE)
    assert {f"worker-{pool}" for pool in workers} == {name for name in found if name.startswith("worker-")}
    receivers = [name for name in found if name.startswith("receiver-")]
    crowd = [f"worker-{pool}-{number}" for pool, count in workers.items() for number in range(1, count + 1)]
    others = ("balancer", "migrate", "operator", "database", "standby", "queue", "provider")
    with machine() as made, Hosts(*receivers, *crowd, *others) as hosts, ExitStack() as ending:
        if not hosts.separate:
            binaries.missing("a network namespace", "run the tests as root")
        folder = made.top / "site"
        folder.mkdir()
        _name(made, {name: hosts[name].address for name in (*receivers, *crowd, *others)})
        done = Site(made, hosts, folder, images())
        build(made, done.images["base"])
        _prepare(done)
        _make_ones_own(done, settings, tools)
        _start_primary(done, found["database"], ending)
        _start_standby(done, found["standby"], ending)
        _start_queue(done, found["queue"], ending)
        ending.callback(done.end)
        done.run("migrate")
        for name in receivers:
            done.start(name)
        for host in crowd:
            name, _, number = host.rpartition("-")
            done.start(name, int(number), SSL_CERT_FILE=TRUSTED)
        for host in (*receivers, *crowd):
            word = '"action": "ready"' if host in crowd else '"action": "listening"'
            done.until(lambda host=host, word=word: word in done.log(host), host)  # type: ignore[misc]
        _start_balancer(done)
        yield done


def _name(made: Machine, addresses: Mapping[str, str]) -> None:
    """Let everybody there know everybody's address, and nobody else's."""
    known = {"localhost": "127.0.0.1", WORLD: addresses["balancer"], **addresses}
    lines = [f"{address} {name}" for name, address in known.items()]
    made.outside("/etc/hosts").write_text("\n".join(lines) + "\n")
    resolver = made.outside("/etc/resolv.conf")
    resolver.unlink(missing_ok=True)
    resolver.write_text("nameserver 127.0.0.1\n")


def _prepare(site: Site) -> None:
    """Make the secrets by the deployment's own script, and the volumes as an engine would."""
    chain, key = certificate(site.folder, host=PROVIDER)
    site.machine.outside(TRUSTED).write_bytes(chain.read_bytes())
    (site.folder / "tls.pem").write_bytes(chain.read_bytes() + key.read_bytes())
    (site.folder / "token").write_text("provisioner\n")
    volumes = {each.partition(":")[0] for service in services(COMPOSE).values() for each in service.get("volumes", ())}
    named = sorted(each for each in volumes if each.startswith(("refusals", "control")))
    lines = [
        "mkdir /opt/deploy /run/secrets", "cp /opt/source/deploy/scale/secrets.sh /opt/deploy/",
        f"sh /opt/deploy/secrets.sh {site.folder}/tls.pem {site.folder}/token",
        f"install -m 0400 -o 99 {SECRETS}/tls.pem /run/secrets/tls.pem",
        f"mkdir {VOLUMES}", f"install -d -m 1777 {VOLUMES}/scratch",
        f"cp -r /opt/source/deploy/scale/settings /opt/source/deploy/scale/tools {VOLUMES}",
        *(f"cp -a {'/run' if name.startswith('control') else '/var/lib'}/wakegate {VOLUMES}/{name}" for name in named),
        f"chmod -R a+rX {VOLUMES}/settings {VOLUMES}/tools",
    ]  # fmt: skip
    done = site.machine.run("sh", "-ec", "\n".join(lines))
    assert done.returncode == 0, done.stderr
    for server in ("passwords.sql", "replication_password", "queue.acl"):
        os.chown(site.secret(server), NOBODY, NOBODY)
    for path in (site.machine.top, site.machine.outside("/opt"), site.machine.outside("/opt/deploy"), site.secret("")):
        path.chmod(0o755)  # the servers run beside the machine, not in it
    site.volumes = {name: f"{VOLUMES}/{name}" for name in (*named, "scratch")}
    site.volumes |= {each: f"{VOLUMES}/{each.removeprefix('./')}" for each in volumes if each.startswith("./")}


def _make_ones_own(site: Site, settings: str, tools: Mapping[str, str]) -> None:
    file = site.machine.outside(f"{VOLUMES}/settings/wakegate.toml")
    file.write_text(settings + file.read_text())
    for pool, text in tools.items():
        module = site.machine.outside(f"{VOLUMES}/tools/{pool}/{pool}.py")
        assert module.exists()
        module.write_text(text)


def _start_primary(site: Site, service: Mapping[str, Any], ending: ExitStack) -> None:
    host = site.hosts["database"]
    password = site.secret("postgres_password").read_text().strip()
    options = _options(service["command"])
    server = PostgresServer(listen=host.address, port=5432, password=password, settings=options, inside=host.prefix)
    ending.callback(server.close)
    server.start()
    name = server.create_database(service["environment"]["POSTGRES_DB"])
    script = {
        "PGHOST": str(server.folder), "PGPASSWORD": password, "POSTGRES_DB": name, "PGDATA": str(server.data),
        "PASSWORDS": str(site.secret("passwords.sql")), "PATH": f"{server.bin_folder}:{os.environ['PATH']}",
    }  # fmt: skip
    done = subprocess.run(["sh", SCALE / "database/primary.sh"], env=script, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    server.restart()
    site.primary = server
    file = site.folder / "postgres_password"
    file.write_text(password)
    file.chmod(0o600)
    site.store = StoreLocation(server.url(name), file)


def _start_standby(site: Site, service: Mapping[str, Any], ending: ExitStack) -> None:
    """Start it by its own entry point."""
    assert site.primary is not None
    server = ServerProcess(ends_by=signal.SIGQUIT, inside=site.inside("standby"))
    ending.callback(server.close)
    given = service["environment"] | {
        "PGDATA": f"{server.folder}/data", "PGPASSFILE": f"{server.folder}/pass",
        "PASSWORD_FILE": str(site.secret("replication_password")),
        "PATH": f"{site.primary.bin_folder}:{os.environ['PATH']}",
    }  # fmt: skip
    shell, _ = service["entrypoint"]
    own = ("-c", f"unix_socket_directories={server.folder}", "-c", "listen_addresses=*")
    variables = [f"{name}={value}" for name, value in given.items()]
    command = ["env", *variables, shell, str(SCALE / "database/standby.sh"), *service["command"], *own]
    server.start(command, (server.folder / ".s.PGSQL.5432").exists)
    site.standby = server
    site.primary.wait_until_synchronous("standby")


def _start_queue(site: Site, service: Mapping[str, Any], ending: ExitStack) -> None:
    host = site.hosts["queue"]
    server = ServerProcess(ends_by=signal.SIGTERM, inside=host.prefix)
    ending.callback(server.close)
    program, *options = service["command"]
    assert program == "redis-server"
    options = [str(site.secret("queue.acl")) if each == "/run/secrets/queue.acl" else each for each in options]
    own = ["--bind", host.address, "--unixsocket", f"{server.folder}/s", "--unixsocketperm", "777", "--dir", "."]
    password = site.secret("queue_password").read_text().strip()
    client = redis.Redis(unix_socket_path=f"{server.folder}/s", username="wakegate", password=password)
    ending.callback(client.close)

    def answers() -> bool:
        try:
            return bool(client.ping())
        except redis.exceptions.ConnectionError:
            return False

    server.start([str(binaries.redis()), *options, *own], answers)
    site.queue = client


def _start_balancer(site: Site) -> None:
    service = services(COMPOSE)["balancer"]
    (program, *_), uid = service["command"], int(service["user"].partition(":")[0])
    command = site.machine.command(program, "-f", "/opt/source/deploy/scale/haproxy.cfg", who=Who(uid, uid))
    with (site.folder / "balancer.log").open("ab") as log:
        site.running["balancer"] = subprocess.Popen([*site.hosts["balancer"].prefix, *command], stdout=log, stderr=log)


def _options(command: Sequence[str]) -> dict[str, str]:
    """What a server's command sets by `-c`."""
    return dict(value.split("=", 1) for flag, value in pairwise(command) if flag == "-c")
