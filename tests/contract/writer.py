"""A process that commits back to back for a while and prints its longest wait in seconds and its commits."""

import asyncio
import sys
import time

from wakegate_schema.store import open_store


async def main(url: str, seconds: float) -> None:
    """Commit until the time is up."""
    async with await open_store(url, mode="use") as store:
        print("ready", flush=True)  # noqa: T201
        sys.stdin.readline()
        longest, commits, end = 0.0, 0, time.monotonic() + seconds
        while (begun := time.monotonic()) < end:
            await store.probe()
            longest, commits = max(longest, time.monotonic() - begun), commits + 1
        print(f"{longest:.4f} {commits}", flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
