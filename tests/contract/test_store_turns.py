"""Two saturated writer processes share the store fairly."""

import subprocess
import sys
from pathlib import Path

from wakegate_schema.store import open_store

WRITER = Path(__file__).with_name("writer.py")
SECONDS = 4.0


async def test_two_saturated_writer_processes_never_wait_half_a_second_for_each_other(database: str) -> None:
    await (await open_store(database, mode="service")).close()
    command = [sys.executable, str(WRITER), database, str(SECONDS)]
    writers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    results = []
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        out, _ = writer.communicate(timeout=60)
        longest, commits = out.split()
        results.append((float(longest), int(commits)))
    assert max(longest for longest, _ in results) < 0.5, results
    counts = sorted(commits for _, commits in results)
    assert counts[0] > 100, results
    assert counts[1] < 3 * counts[0], results
