"""Send a file of notifications from a process of its own, and refuse to go on if not all were taken."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import ROOT
from benchmarks.figures import Failed
from benchmarks.load.client import Report
from support.processes import clean_environment


async def send(file: Path, ports: Sequence[int], *, warm: int, connections: int = 64) -> Report:
    """Return the report of a run in which every request was answered with 204.

    Args:
        file: from `deliveries.write`.
        ports: of the receivers; connections are spread over them evenly.
        warm: answers before the clock starts.
        connections: how many are kept open.

    Raises:
        Failed: something was answered otherwise, or not at all.
    """
    given = [str(file), *map(str, ports), "--warm", str(warm), "--connections", str(connections)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.load.client", *given, cwd=ROOT, env=clean_environment(),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, errors = await process.communicate()
    if process.returncode != 0:
        raise Failed(f"the load's process ended with {process.returncode}:\n{errors.decode(errors='replace')}")
    report = Report(**json.loads(out))
    if set(report.statuses) != {"204"}:
        raise Failed(f"not everything was acknowledged: {report.statuses}")
    return report
