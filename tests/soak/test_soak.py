"""The soak in its short form: the same processes, trouble and count as `make soak`, on two grounds in turn."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.servers import binaries

pytestmark = pytest.mark.alone

LIMIT_S = 240
"""When a soak is taken to hang; it bounds itself to less."""


@pytest.mark.parametrize(
    ("database", "queue", "minutes"), [("sqlite", "embedded", "0.4"), ("postgresql", "redis", "0.45")]
)
def test_nothing_is_lost_and_nothing_runs_twice_under_random_kills_skewed_clocks_and_outages(
    database: str, queue: str, minutes: str, tmp_path: Path
) -> None:
    if database == "postgresql":
        servers_are_here()
    environment = dict(os.environ) | {"PYTHONPATH": str(Path(__file__).parents[1]), "TMPDIR": "/tmp"}
    ground = ["--database", database, "--queue", queue]
    done = subprocess.run(
        [sys.executable, "-m", "soak", "--minutes", minutes, *ground],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    print(done.stdout)  # noqa: T201 (the seed, and what was counted)
    first, *_, last = done.stdout.splitlines()
    assert (done.returncode, last.partition(":")[0]) == (0, "HELD"), done.stdout
    assert first.startswith("seed ")


def servers_are_here() -> None:
    """Skip, or fail in CI, where one of the servers is missing."""
    for find in (binaries.postgresql, binaries.pgbouncer, binaries.redis):
        find()
