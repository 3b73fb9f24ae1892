"""Measure one thing or several, and write tables: `PYTHONPATH=tests python -m benchmarks.scale` (docs/scale.md)."""

import argparse
import asyncio
import os
import platform
import sqlite3
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from benchmarks.scale import growing, idling, retaining, speaking, turning

MEASURES: dict[str, Callable[[argparse.Namespace], Coroutine[Any, Any, None]]] = {
    "statements": speaking.measure,
    "turn": turning.measure,
    "bytes": retaining.measure,
    "idle": idling.measure,
    "growth": growing.measure,
}


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument(
        "what", nargs="*", choices=[*MEASURES, []], help="which measures; all but `growth` unless named"
    )
    parser.add_argument("--rows", type=int, nargs="*", default=[0, 100_000], help="retained rows for `growth`")
    chosen = parser.parse_args()
    _say_where()
    for name in chosen.what or [name for name in MEASURES if name != "growth"]:
        asyncio.run(MEASURES[name](chosen))


def _say_where() -> None:
    packages = ", ".join(f"{name} {version(name)}" for name in ("psycopg", "redis", "rq", "aiohttp"))
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(
        f"{datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} processors, load {load}; {platform.system()}"
        f" {platform.machine()}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {packages}\n"
    )


if __name__ == "__main__":
    main()
