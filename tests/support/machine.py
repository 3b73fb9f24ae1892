"""A machine to install on: this one, with an /etc, a /var/lib, a /run and an /opt of its own in a mount namespace.

`wakegate` is installed there under /opt as an operator would have it, readable by every user, and what is made under
/etc leaves the real one alone. Only root can make one.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTIES = ("schema", "receiver", "worker", "adapter", "provider", "console")
WAKEGATE = "/opt/wakegate/bin/wakegate"
PYTHON = "/opt/wakegate/bin/python"
NEW_UID, NEW_GID = 61_000, 61_000
"""Numbers that no user of a machine has: whoever has no entry anywhere."""

_PATIENCE_S = 300
_PATH = "PATH=/usr/sbin:/sbin:$PATH\nexport PATH\n"
_LOOPBACK = f"""
{shlex.quote(sys.executable)} -c '
import fcntl, socket, struct
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
fcntl.ioctl(socket.socket(), SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))'
"""
_SETUP = """
set -e
mount --make-rprivate /
cp -a /etc/. {top}/etc
rm -rf {top}/etc/wakegate
mount --bind {top}/etc /etc
mount --bind {top}/opt /opt
mount --bind {source} /opt/source
mount --bind {python} /opt/python
mount --bind {packages} /opt/packages
mount --bind {top}/lib /var/lib
mount --bind {top}/run /run
[ ! -d /var/cache/ldconfig ] || mount -t tmpfs none /var/cache/ldconfig
mkdir -p /etc/ld.so.conf.d
echo /opt/python/lib > /etc/ld.so.conf.d/00-python.conf
ldconfig
echo ready
exec sleep 100000
"""


@dataclass(frozen=True)
class Who:
    """A user by numbers."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


ROOT_USER = Who(0, 0)


@dataclass
class Machine:
    """The namespace, and what runs in it."""

    top: Path
    """The folder that its own directories lie in; `top / "etc"` is its /etc."""
    pid: int
    """Of the process that keeps the namespace."""
    environment: dict[str, str] = field(default_factory=dict)
    """What every command there has."""
    namespaces: tuple[str, ...] = ("mount",)

    def outside(self, path: str | Path) -> Path:
        """Where a file of the machine is seen from here."""
        parts = Path(path).parts
        if parts[1] in ("etc", "opt", "run"):
            return self.top.joinpath(*parts[1:])
        assert parts[1:3] == ("var", "lib")
        return self.top.joinpath("lib", *parts[3:])

    def command(self, *command: str, who: Who = ROOT_USER, cwd: str = "/opt", **settings: str) -> list[str]:
        """The command line that runs a command there, as a user, with nothing of this environment."""
        groups = ["--groups", ",".join(map(str, who.groups))] if who.groups else ["--clear-groups"]
        user = ["setpriv", "--reuid", str(who.uid), "--regid", str(who.gid), *groups]
        if who.uid:
            user += ["--no-new-privs", "--bounding-set", "-all", "--inh-caps", "-all"]
        variables = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", **self.environment, **settings}
        environment = [f"{name}={value}" for name, value in variables.items()]
        inside = [f"--{name}" for name in self.namespaces]
        enter = ["nsenter", "--target", str(self.pid), *inside, f"--wdns={cwd}"]
        return [*enter, *user, "env", "-i", *environment, *command]

    def run(
        self, *command: str, who: Who = ROOT_USER, cwd: str = "/opt", **settings: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command there to its end."""
        return subprocess.run(
            self.command(*command, who=who, cwd=cwd, **settings),
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )

    def wakegate(self, *arguments: str, who: Who = ROOT_USER, **settings: str) -> "subprocess.CompletedProcess[str]":
        """Run `wakegate` there to its end."""
        return self.run(WAKEGATE, *arguments, who=who, **settings)

    def start(
        self, *command: str, log: Path, who: Who = ROOT_USER, cwd: str = "/opt", **settings: str
    ) -> "subprocess.Popen[bytes]":
        """Start a command there; whoever starts it ends it."""
        with log.open("ab") as out:
            return subprocess.Popen(self.command(*command, who=who, cwd=cwd, **settings), stdout=out, stderr=out)

    def user(self, name: str, *more_groups: str) -> Who:
        """A user of the machine, by its own files, with the groups that these say."""
        users = {line.split(":")[0]: line.split(":") for line in self._lines("passwd")}
        groups = [line.split(":") for line in self._lines("group")]
        gid = int(users[name][3])
        also = [int(each[2]) for each in groups if name in each[3].split(",") or each[0] in more_groups]
        return Who(int(users[name][2]), gid, tuple(also))

    def gid(self, group: str) -> int:
        """A group's number."""
        return next(int(line.split(":")[2]) for line in self._lines("group") if line.split(":")[0] == group)

    def _lines(self, name: str) -> Sequence[str]:
        return self.outside(f"/etc/{name}").read_text().splitlines()


@contextmanager
def machine(*, network: bool = False) -> Iterator[Machine]:
    """Make a machine; it ends once nothing runs in it any more.

    Args:
        network: give it a loopback of its own too, where every port is free.
    """
    if os.geteuid() != 0:
        if os.environ.get("CI"):
            pytest.fail("these tests need root: they start processes of other users")
        pytest.skip("only root can start processes of other users")
    top = Path(tempfile.mkdtemp(prefix="wg", dir="/tmp"))
    try:
        top.chmod(0o755)
        _lay_out(top)
        namespaces = ("mount", "net") if network else ("mount",)
        own = [f"--{name}" for name in namespaces]
        script = _PATH + (_LOOPBACK if network else "") + _SETUP.format_map(_places(top))
        keeper = subprocess.Popen(["unshare", *own, "sh", "-c", script], stdout=subprocess.PIPE, text=True)
        try:
            assert keeper.stdout is not None
            assert keeper.stdout.readline().strip() == "ready"
            yield Machine(top, keeper.pid, namespaces=namespaces)
        finally:
            keeper.kill()
            keeper.communicate()
    finally:
        shutil.rmtree(top)


def _places(top: Path) -> Mapping[str, str]:
    places = {"top": top, "source": ROOT, "python": sys.base_prefix, "packages": sysconfig.get_path("purelib")}
    return {name: shlex.quote(str(path)) for name, path in places.items()}


def _lay_out(top: Path) -> None:
    """Install as `python -m venv /opt/wakegate` and pip would, with what is installed here already."""
    for name in ("etc", "opt/source", "opt/python", "opt/packages", "opt/wakegate/bin", "lib", "run"):
        (top / name).mkdir(parents=True)
    here = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = top / "opt/wakegate/lib" / here / "site-packages"
    packages.mkdir(parents=True)
    (packages / "wakegate.pth").write_text(
        "\n".join([*(f"/opt/source/{party}" for party in PARTIES), "/opt/packages"]) + "\n"
    )
    venv = top / "opt/wakegate"
    (venv / "pyvenv.cfg").write_text("home = /opt/python/bin\ninclude-system-site-packages = false\n")
    (venv / "bin/python").symlink_to(f"/opt/python/bin/{here}")
    script = venv / "bin/wakegate"
    script.write_text(f"#!{PYTHON} -P\nimport sys\nfrom wakegate_console.entry import main\nsys.exit(main())\n")
    script.chmod(0o755)
