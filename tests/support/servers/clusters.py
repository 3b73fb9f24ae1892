"""A new PostgreSQL cluster: made once for a whole run of tests, then copied, which is ten times as quick."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from support.servers.process import ServerProcess

KEPT = "PYTEST_KEPT_CLUSTERS"
"""Names the folder in which the processes of a run keep them; without it every server makes its own."""


def make(data: Path, process: ServerProcess, programs: Path) -> None:
    """Lay a new cluster, its user `postgres`, UTF-8 and the C locale, as a server's data directory.

    Args:
        data: the directory, which does not exist yet.
        process: of the server that it is for.
        programs: the folder of `initdb`.
    """
    kept = os.environ.get(KEPT)
    if not kept:
        _initdb(data, process, programs)
        return
    folder = Path(kept)
    folder.mkdir(parents=True, exist_ok=True)
    template = folder / hashlib.sha256(str(programs).encode()).hexdigest()[:16]
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            _initdb(data, process, programs)
            subprocess.run(["cp", "-a", str(data), f"{template}.new"], check=True)
            Path(f"{template}.new").rename(template)
            return
    subprocess.run(["cp", "-a", str(template), str(data)], check=True)


def remove_shared_memory(postmaster_pid: Path) -> None:
    """Remove the shared memory of a server that was killed: its pid file names it."""
    try:
        named = postmaster_pid.read_text().splitlines()[6].split()
    except (FileNotFoundError, IndexError):
        return
    if len(named) == 2 and shutil.which("ipcrm"):
        subprocess.run(["ipcrm", "-m", named[1]], capture_output=True, check=False)  # it may be gone


def _initdb(data: Path, process: ServerProcess, programs: Path) -> None:
    process.run(
        [
            str(programs / "initdb"), f"--pgdata={data}", "--no-sync", "--auth=trust", "--username=postgres",
            "--encoding=UTF8", "--locale=C",
        ]
    )  # fmt: skip
