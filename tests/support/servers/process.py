"""One server process: a folder, a user without rights, a start, an end, and a keeper that sees to the end."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

NOBODY = 65534
"""The user and group that a server has where root starts it."""

_PATIENCE_S = 60.0
_STEP_S = 0.01
_KEEPER = """
read -r _
kill -CONT "$1"
kill -"$3" "$1"
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    read -r _ _ state _ 2>&- < "/proc/$1/stat" && [ "$state" != Z ] || break
    sleep 0.1
done
kill -KILL "$1" 2>&-
rm -rf "$2"
"""
"""Waits for the end of the process that holds the other end of its input."""


class ServerProcess:
    """What the servers have in common.

    Args:
        ends_by: the signal on which the program ends at once.
        inside: a command that runs another one on a certain host (`support.hosts.Host.prefix`); none for this one.
    """

    def __init__(self, *, ends_by: signal.Signals, inside: Sequence[str] = ()) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="wg", dir="/tmp"))  # a socket's path must be short
        self.folder.chmod(0o755)
        self.give(self.folder)
        self.log = self.folder / "log"
        self._ends_by = ends_by
        self._inside = tuple(inside)
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the running server."""
        assert self._process is not None, "the server does not run"
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the server runs."""
        return self._process is not None and self._process.poll() is None

    def start(self, command: Sequence[str], ready: Callable[[], bool]) -> None:
        """Start the server and wait until it is ready; raise what its log says if it never is."""
        assert not self.alive, "the server runs already"
        self.wait()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._unprivileged(command), env=_environment(), cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._keeper = subprocess.Popen(
            ["sh", "-c", _KEEPER, "sh", str(self.pid), str(self.folder), self._ends_by.name.removeprefix("SIG")],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            until(lambda: ready() or not self.alive, f"{command[0]} is not ready:\n", says=self.tail)
            assert self.alive, f"{command[0]} ended at once:\n{self.tail()}"
        except BaseException:
            self.end(signal.SIGKILL)
            raise

    def run(self, command: Sequence[str]) -> None:
        """Run a command to its end as the server's user, where the server runs."""
        ended = subprocess.run(
            self._unprivileged(command),
            env=_environment(),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
        if ended.returncode != 0:
            raise RuntimeError(f"{command[0]} failed:\n{(ended.stdout + ended.stderr).decode(errors='replace')}")

    def end(self, by: signal.Signals | None = None) -> None:
        """End the server by a signal, and harder if that does not end it; it may be gone already."""
        if self._process is None:
            return
        if self.alive:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(by or self._ends_by)
            try:
                self._process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self.wait()

    def send(self, what: signal.Signals) -> None:
        """Send the server a signal."""
        assert self._process is not None, "the server does not run"
        self._process.send_signal(what)

    def wait(self) -> None:
        """Wait for the end of the server, and let its keeper go."""
        if self._process is not None:
            self._process.wait()
            self._process = None
        if self._keeper is not None:
            self._keeper.kill()
            self._keeper.wait()
            assert self._keeper.stdin is not None
            self._keeper.stdin.close()
            self._keeper = None

    def close(self) -> None:
        """End the server and remove its folder."""
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def give(self, path: Path) -> None:
        """Make a file the server's own."""
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the server's own into its folder."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        self.give(path)
        return path

    def tail(self) -> str:
        """The end of the log."""
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else "(no log)"

    def _unprivileged(self, command: Sequence[str]) -> list[str]:
        if os.geteuid() == 0:
            return [*self._inside, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]
        # On a host that an ordinary user made, everybody is root, which PostgreSQL refuses to be.
        nobody = ["unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}"] if self._inside else []
        return [*self._inside, *nobody, *command]


def until(
    holds: Callable[[], bool], what: str, *, says: Callable[[], str] = str, patience_s: float = _PATIENCE_S
) -> None:
    """Wait until something holds.

    Args:
        holds: whether it does.
        what: it is that did not come to hold, for the error.
        says: more for the error.
        patience_s: how long to wait.
    """
    ends = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > ends:
            raise TimeoutError(what + says())
        time.sleep(_STEP_S)


def runs(pid: int) -> bool:
    """Whether a process, a child of this one or not, has not ended yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "WAKEGATE_"))} | {
        "LC_ALL": "C"
    }
