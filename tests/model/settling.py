"""Settling: nothing fails any more, everybody does what is theirs, and time passes only where all wait for it."""

from collections.abc import Callable

from model import notices
from model.approver import FALSIFIED
from model.reference import Disagreement
from model.snapshot import Row, Snapshot
from model.world import World

from wakegate_schema.clock import DAY, MINUTE

ROUNDS = 150
"""More than any history needs; who needs more goes in circles."""
UNSTARTED = ("saved", "submitting", "waiting", "permitted")


async def settle(world: World, check: Callable[[], None]) -> None:
    """Bring a history to rest, checking after every step.

    Every call that can still run is approved for a day, so it must run: once.
    """
    world.listener.deaf = False
    for job in [job for job in world.jobs if not job.done and not job.dead]:
        await world.finish(job, check)
    for instance in {signer.instance for signer in world.reference.signers}:
        await world.set_credential(instance, refused=False)
    check()
    for _ in range(ROUNDS):
        await _round(world, check)
        due_at = _next(world.observer.look(), world.at)
        if due_at is None:
            return
        if due_at > world.at:
            world.pass_time(due_at - world.at)
    left = [(row["idempotency_key"], row["state"], row["problem"]) for row in world.observer.look().executions.values()]
    raise Disagreement(f"it does not come to rest: {left}")


async def _round(world: World, check: Callable[[], None]) -> None:
    for execution_id in world.held():
        await world.release(execution_id)
        check()
    _approve(world)
    for notice in notices.deliverable(world):
        if world.reference.live(notice.signer):
            wrong = await notices.deliver(world, notice, "well")
            if wrong:
                world.reference.complaints += wrong
    check()
    await world.sweep(both=True)
    for name in world.workers:
        await work(world, name, check)
    for execution_id in world.in_state("permitted"):
        await world.begin_claim(execution_id, "last")
        await world.finish(world.jobs[-1], check)
    for name in world.workers:
        if world.in_state("in_doubt"):
            await world.probe(name)
        await world.workers[name].wake()
    check()


async def work(world: World, name: str, check: Callable[[], None]) -> None:
    """Let a worker do all that is due, to its end."""
    await world.lease(name, 100)
    await world.cancels(name)
    check()
    for job in [job for job in world.jobs if not job.done and not job.dead]:
        await world.finish(job, check)


def _approve(world: World) -> None:
    rows = world.observer.look().executions
    for call in world.reference.calls.values():
        request, row = world.reference.request(call), rows[call.execution_id]
        if request is None or request.status != "pending" or row["state"] not in UNSTARTED:
            continue
        world.approvers[call.instance[0]].decide(request, "approved", DAY)
        runs = call.kind != FALSIFIED and call.instance not in world.reference.retired
        call.must_run = runs and row["hold_id"] is None


def _next(now: Snapshot, at: int) -> int | None:
    """When the next thing is due, or None when nothing is."""
    times = [time for row in now.executions.values() if (time := _waits_for(row)) is not None]
    if any(row["epoch"] < now.epoch and row["state"] in UNSTARTED for row in now.executions.values()):
        return at
    times += [wake["due_at"] for wake in now.wakes.values() if wake["due_at"] is not None]
    times += [row["cancel_due_at"] for row in now.executions.values() if row["cancel_due_at"] is not None]
    times += [row["report_due_at"] for row in now.executions.values() if row["report_due_at"] is not None]
    times += [at + 10 * MINUTE for row in now.executions.values() if _is_probed(row)]
    return min(times, default=None)


def _waits_for(row: Row) -> int | None:
    if row["state"] == "permitted":
        return int(row["expires_at"])
    if row["state"] == "started":
        return int(row["lease_until"])
    return None if row["due_at"] is None else int(max(row["due_at"], row["lease_until"] or 0))


def _is_probed(row: Row) -> bool:
    """Whether the world can still be asked about a call in doubt."""
    return bool(row["state"] == "in_doubt" and row["tool"] == "refund" and row["arguments"] is not None)
