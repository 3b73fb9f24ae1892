"""A process that forks with an open store, and prints what the child and the parent can do with it."""

import asyncio
import os
import sys

from wakegate_schema.store import Store, StoreUnavailable, open_store


async def used(store: Store) -> str:
    """Write, read and wait; return the reason why not."""
    reasons = []
    for use in (store.probe, store.registrations, lambda: store.changed(-1, 5), store.close):
        try:
            await use()
        except StoreUnavailable as error:
            reasons.append(error.reason)
    return " ".join(reasons) or "works"


async def opened(url: str) -> Store:
    """An open store that has been used."""
    store = await open_store(url, mode="use")
    await store.probe()
    await store.changed(-1, 0)
    return store


if __name__ == "__main__":
    loop = asyncio.new_event_loop()
    held = loop.run_until_complete(opened(sys.argv[1]))
    if os.fork() == 0:
        print("child:", asyncio.run(used(held)), flush=True)  # noqa: T201
        os._exit(0)
    os.wait()
    print("parent:", loop.run_until_complete(used(held)), flush=True)  # noqa: T201
