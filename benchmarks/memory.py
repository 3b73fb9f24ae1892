"""Memory: what a receiver holds after a million notifications, and held when it had begun to listen."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.figures import Bar, Failed, Figure, Measure, Plan
from benchmarks.load import deliveries
from benchmarks.load.sending import send
from benchmarks.rows import rows
from benchmarks.scale.desks import desk_on
from benchmarks.scale.grounds import Service, ground

MEMORY: Final = "receiver memory"
START: Final = "at start"
END: Final = "at the end"
_AT_ONCE: Final = 20_000


async def measure(plan: Plan) -> Sequence[Figure]:
    """Send them all in one go; new ones are made while others are taken."""
    count = 60_000 if plan.quick else 1_000_000
    async with ground("SQLite") as at, desk_on(at) as (_, sender):
        service = await at.start("receiver", "listening")
        held = [resident_mb(service)]
        files = [at.folder / f"deliveries-{number}" for number in range(2)]
        await asyncio.to_thread(deliveries.write, files[0], sender, _AT_ONCE)
        for done in range(0, count, _AT_ONCE):
            plan.say(f"{done:,} of {count:,} taken")
            making = asyncio.to_thread(deliveries.write, files[1], sender, _AT_ONCE if done + _AT_ONCE < count else 0)
            await asyncio.gather(send(files[0], [service.port], warm=0), making)
            held.append(resident_mb(service))
            files.reverse()
        with rows(at) as found:
            if found.notifications() != count:
                raise Failed(f"{count} notifications were acknowledged, {found.notifications()} rows were found")
    return (
        Figure(
            MEMORY, "MB", {START: (held[0],), END: (held[-1],)},
            f"Resident memory of the receiver when it listens, and after {count:,} notifications.",
            (f"the most in between was {max(held):.0f} MB, looked at after every {_AT_ONCE:,}; one round",),
        ),
    )  # fmt: skip


def resident_mb(service: Service) -> float:
    """The resident memory of a process."""
    for line in Path(f"/proc/{service.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise Failed("the receiver is gone")


MEASURES: Final = (
    Measure(
        "memory",
        "Memory of the receiver",
        (Bar("receiver memory after 1 million notifications ÷ at start", MEMORY, END, START, (1.3,), at_least=False),),
        measure,
    ),
)
