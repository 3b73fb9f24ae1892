"""A process that ends or seals a group's calls when it is told to: `resolver.py URL WORD...`."""

import asyncio
import sys

from wakegate_schema import clock
from wakegate_schema.store import open_store


async def main(url: str, words: list[str]) -> None:
    """Abandon an execution, or seal a group: each word is `abandon:ID` or `seal:PROVIDER|INSTANCE|GROUP`."""
    async with await open_store(url, mode="use") as store:
        await store.probe()
        print("ready", flush=True)  # noqa: T201
        for word in words:
            if not sys.stdin.readline():
                return
            act, _, what = word.partition(":")
            if act == "abandon":
                await store.abandon(what, "over", "harness", clock.now())
            else:
                provider, instance_id, group = what.split("|")
                await store.seal_group(provider, instance_id, group, clock.now())
            print("done", flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
