"""A process that records notifications as fast as it can and prints each event id once it is acknowledged."""

import asyncio
import sys

from support.desk import Desk, new_id
from wakegate_schema.store import open_store


async def main(url: str, instance_id: str, registration_id: str) -> None:
    """Acknowledge until killed."""
    async with await open_store(url, mode="use") as store:
        desk = Desk(store, instance_id=instance_id, registration_id=registration_id)

        async def deliver() -> None:
            while True:
                arrival = desk.arrival(new_id())
                receipt = await store.record(arrival)
                print(receipt.kind, arrival.event_id, flush=True)  # noqa: T201

        await asyncio.gather(*(deliver() for _ in range(8)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
