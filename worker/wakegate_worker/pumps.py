"""Pumps: the streams of work beside the executions' own, each with room of its own."""

import asyncio
import functools

from wakegate_schema.records import Adoption, Execution, Wake
from wakegate_schema.settings import Settings
from wakegate_worker import wake_programs
from wakegate_worker.owed import Owed
from wakegate_worker.pump import Pump
from wakegate_worker.resuming import Resuming
from wakegate_worker.slots import Slots
from wakegate_worker.stopping import Stop
from wakegate_worker.waking import Waking

SMALL_ROOM = 64
"""How many cancels, how many reports, and how many wakes that run no program, are under way at once."""


def pump_owed(owed: Owed, settings: Settings, stop: Stop) -> Pump[Execution]:
    """Return the stream of one kind of what executions owe their provider."""
    return Pump(
        owed.action,
        slots=Slots(SMALL_ROOM),
        take=owed.take,
        handle=owed.handle,
        wait=functools.partial(stop.pause, settings.sweep_seconds),
        stop=stop,
    )


def pump_wakes(waking: Waking, settings: Settings, woken: asyncio.Event, stop: Stop) -> list[Pump[Wake]]:
    """Return the streams of wakes: one for each target that runs programs, so that none holds up others."""
    programs = [name for name, target in settings.wake_targets.items() if target.runs_a_program]
    takes = [(SMALL_ROOM, functools.partial(waking.take, but=programs))]
    takes += [(wake_programs.AT_ONCE, functools.partial(waking.take, target=name)) for name in programs]
    return [
        Pump(
            "wake",
            slots=Slots(room),
            take=take,
            handle=waking.handle,
            wait=functools.partial(stop.pause, settings.sweep_seconds, woken),
            stop=stop,
        )
        for room, take in takes
    ]


def pump_adoptions(resuming: Resuming, settings: Settings, stop: Stop) -> list[Pump[Adoption]]:
    """Return the stream of adopted requests; none where this worker can resume no framework."""
    if not settings.resumers:
        return []
    return [
        Pump(
            "resume",
            slots=Slots(wake_programs.AT_ONCE * (len(settings.resumers) + 1)),  # room to look when all of them run
            take=resuming.take,
            handle=resuming.handle,
            wait=functools.partial(stop.pause, settings.sweep_seconds),
            stop=stop,
        )
    ]
