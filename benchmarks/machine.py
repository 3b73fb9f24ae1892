"""The machine and the versions that a run had: without them its figures say nothing."""

import os
import platform
import sqlite3
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from support.servers import binaries

_PACKAGES: Final = (
    "wakegate", "agentapprovalprotocol", "aiohttp", "httptools", "psycopg", "redis", "rq", "uvicorn", "uvloop",
)  # fmt: skip


def describe() -> dict[str, str]:
    """What the machine is, by name."""
    return {
        "processors": f"{os.cpu_count()} × {_field('/proc/cpuinfo', 'model name')}",
        "memory": f"{int(_field('/proc/meminfo', 'MemTotal').split()[0]) / 1_048_576:.0f} GB",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "disk": _disk(Path("/tmp")),
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        "PostgreSQL": _said([str(binaries.postgresql() / "postgres"), "--version"]),
        "Redis": _said([str(binaries.redis()), "--version"]),
        "packages": ", ".join(_versions(_PACKAGES)),
    }


def load() -> str:
    """How many processes wanted to compute, on average over one, five and fifteen minutes."""
    return " ".join(f"{each:.2f}" for each in os.getloadavg())


def line(machine: Mapping[str, str]) -> str:
    """The same in a line."""
    return "; ".join(f"{name}: {value}" for name, value in machine.items())


def _field(file: str, name: str) -> str:
    for each in Path(file).read_text().splitlines():
        found, _, value = each.partition(":")
        if found.strip() == name:
            return value.strip()
    return "unknown"


def _disk(folder: Path) -> str:
    """The file system that holds the stores, and what is beneath it."""
    found = _said(["findmnt", "--noheadings", "--output", "FSTYPE,SOURCE", "--target", str(folder)])
    return " on ".join(found.split())


def _said(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _versions(names: Sequence[str]) -> Sequence[str]:
    found = []
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed")
    return found
