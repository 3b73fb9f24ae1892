"""The stories: together they reach every fault point. Each goes on to its end whatever dies or fails in it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp
from aiohttp import web

from faults.grounds import DATABASE
from faults.tools import lose
from faults.world import TOKEN, Call, World
from support import driving
from support.aap_peer import refusal
from support.deliveries import Delivery
from support.desk import new_id
from wakegate_schema import clock, timestamps
from wakegate_schema.records import Approval, Execution, RequestIdentity
from wakegate_schema.sealing import BearerToken, Credential
from wakegate_worker.aap import AapClient
from wakegate_worker.outbound import open_session


@dataclass(frozen=True)
class Story:
    """What happens in a world, to its end."""

    subject: str
    """The program that may break in it."""
    tell: Callable[[World], Awaitable[None]]
    fresh: bool = False
    """Whether the subject starts in an empty folder."""
    delivery: str = "webhook"

    @property
    def name(self) -> str:
        """Its name."""
        return self.tell.__name__

    async def happen(self, world: World) -> None:
        """Let it happen, and everything in it come to rest."""
        world.delivery = "none" if self.delivery == "none" else "webhook"
        if not self.fresh:
            if world.delivery == "webhook":
                await world.register()
            await world.employ()
        await self.tell(world)
        await world.settle()


# The worker breaks


async def first_start(world: World) -> None:
    """A worker makes its key, the wake secret and the store; then a call is saved, approved and run."""
    await world.start("worker")
    key_files = (world.folder / "worker.key", world.folder / "wake.secret")
    await world.when(lambda: all(path.exists() for path in key_files))
    await world.when(lambda: _opened(world))
    await world.register()
    await world.employ()
    await world.decided(await world.save("approved"))


async def _opened(world: World) -> bool:
    if world.place.ground.database == "sqlite" and not (world.folder / DATABASE).exists():
        return False
    try:
        await world.open()
    except Exception:  # noqa: BLE001 (not migrated yet)
        return False
    return True


async def approved_and_denied(world: World) -> None:
    """One call is approved and one denied, and the harness is woken over HTTP."""
    keys = [await world.save("approved"), await world.save("denied")]
    await world.start("worker")
    for key in keys:
        await world.decided(key)


async def approved_early(world: World) -> None:
    """The notification comes before the submission is answered; the tool runs in a thread for longer than a lease."""
    key = await world.save("approved", tool="refund_in_a_thread")

    async def notify_early(request: web.Request) -> web.StreamResponse | None:
        known = world.peer.keys.get(key)
        if request.method == "POST" and known is not None and world.request(key)["status"] == "pending":
            world.peer.approve(world.request(key), lasting=3600)
            await world.notify(known)
        return None

    world.peer.interference = notify_early
    await world.start("worker")
    await world.submitted(key)


async def permitted(world: World) -> None:
    """The harness claims a call that the worker has permitted; its wake fails at first."""
    world.wake_answers = [503]
    await world.start("worker")
    key = new_id()
    world.calls[key] = Call("approved")
    await world.start("harness", "claim", key)
    await world.decided(key)


async def told_as_a_group(world: World) -> None:
    """Two calls of a group end, one before it is sealed and one after; a program is told of both."""
    keys = [await world.save(fate, group="turn", wake="program") for fate in ("approved", "denied")]
    await world.start("worker")
    await world.decided(keys[0])
    await world.store.seal_group(world.url, world.instance_id, "turn", clock.now())
    await world.decided(keys[1])


async def told_by_an_entry_point(world: World) -> None:
    """A call ends, and a wake's entry point is told of it."""
    key = await world.save("approved", wake="entry")
    await world.start("worker")
    await world.decided(key)


async def given_up(world: World) -> None:
    """A waiting call is given up; its cancel fails at first."""
    key = await world.save("abandoned")
    failures = [503]

    async def fail_once(request: web.Request) -> web.StreamResponse | None:
        if request.method == "DELETE" and failures:
            return refusal(failures.pop(), "unavailable", "unavailable")
        return None

    world.peer.interference = fail_once
    await world.start("worker")
    await world.submitted(key)
    await _abandon(world, key)


async def given_up_while_submitting(world: World) -> None:
    """A call is given up while its submission is under way, which takes longer than a third of the lease."""
    key = await world.save("abandoned")

    async def slowly(request: web.Request) -> web.StreamResponse | None:
        if request.method == "POST" and len(world.peer.submissions) == 1:
            await asyncio.sleep(1.0)
        return None

    world.peer.interference = slowly
    await world.start("worker")
    await world.submitted(key)
    await _abandon(world, key)


async def _abandon(world: World, key: str) -> None:
    for _, execution in await world.store.executions():
        if execution.idempotency_key == key:
            await world.store.abandon(execution.execution_id, "conversation closed", "harness", clock.now())


async def consumed(world: World) -> None:
    """An approval is consumed at the provider, and its outcome is reported; the first report fails."""
    world.peer.consumes, failures = True, [503]

    async def fail_once(request: web.Request) -> web.StreamResponse | None:
        if request.path.endswith("/outcome") and failures:
            return refusal(failures.pop(), "unavailable", "unavailable")
        return None

    world.peer.interference = fail_once
    key = await world.save("approved")
    await world.start("worker")
    await world.decided(key)


async def given_up_while_consuming(world: World) -> None:
    """A call is given up while its approval is being consumed: the provider is told that it did not run."""
    world.peer.consumes = True
    key = await world.save("abandoned")

    async def abandon(request: web.Request) -> web.StreamResponse | None:
        if request.path.endswith("/consume"):
            await _abandon(world, key)
        return None

    world.peer.interference = abandon
    await world.start("worker")
    await world.decided(key)


async def adopted(world: World) -> None:
    """A notification comes for a request that a framework has made, and its run is resumed."""
    await world.start("worker")
    await world.gated("short")


async def adopted_for_long(world: World) -> None:
    """The same, and the run takes so long that its lease is kept meanwhile."""
    await world.start("worker")
    await world.gated("long")


async def in_doubt(world: World) -> None:
    """A tool loses its answer; its probe finds out."""
    key = await world.save("approved", tool="lose_the_answer")
    await world.start("worker")
    await world.decided(key)


async def in_doubt_for_long(world: World) -> None:
    """A tool runs on past its timeout; its late word settles it."""
    key = await world.save("approved", tool="run_on")
    await world.start("worker")
    await world.decided(key)
    await world.comes_out(key)


async def _submitted_by_another(world: World) -> Execution:
    """Submit the one call there is, as a worker that has gone since; return it under that one's lease."""
    ((_, saved),) = await world.store.executions()
    leased = await driving.lease(world.store, saved.execution_id)
    now = clock.now()
    await world.store.begin_submission(leased.lease, "1", now)
    credential = Credential(world.url, world.instance_id, BearerToken(TOKEN))
    async with open_session() as session:
        found = (await AapClient(session, credential).submit(leased)).request
    created_at, deadline_at = timestamps.parse(found.created_at), timestamps.parse(found.deadline_at)
    await world.store.attach(leased.execution_id, RequestIdentity(found.id, created_at, deadline_at), now)
    return leased


async def orphaned(world: World) -> None:
    """The tool of a call that was submitted is on no worker any more; its denial is heard all the same."""
    key = await world.save("denied", tool="gone")
    leased = await _submitted_by_another(world)
    now = clock.now()
    await world.store.release(leased.lease, now, None, now)
    await world.start("worker")
    await world.decided(key)


async def replaced(world: World) -> None:
    """A worker is told to stop, and another one takes its place."""
    await world.start("worker")
    await world.decided(await world.save("approved"))
    await world.settle()
    await world.stop("worker")
    await world.start("worker")
    await world.decided(await world.save("approved"))


async def fallen_silent(world: World) -> None:
    """A worker dies in a tool; another one asks the probe, once there was no sign of life for long enough."""
    key = await world.save("approved", tool="lose_the_answer")
    leased = await _submitted_by_another(world)
    now = clock.now()
    await world.decided(key)
    decision = world.request(key)["decision"]
    decided_at, expires_at = timestamps.parse(decision["decided_at"]), timestamps.parse(decision["expires_at"])
    await world.store.start(leased.lease, Approval(decided_at, expires_at, None), now, now + clock.SECOND)
    lose(world.folder, key, leased.execution_id)
    await world.start("worker")


async def parked(world: World) -> None:
    """The provider refuses the credential until there is another."""
    key = await world.save("approved")

    async def refuse(request: web.Request) -> web.StreamResponse | None:
        if request.headers["Authorization"].endswith("-new"):
            return None
        return refusal(401, "authentication", "authentication")

    world.peer.interference = refuse
    await world.start("worker")
    await world.when(lambda: _is_parked(world))
    sealed = world.credential("tok-of-the-refund-desk-new")
    await world.store.set_credential(world.url, world.instance_id, sealed, None, clock.now())
    await world.decided(key)


async def _is_parked(world: World) -> bool:
    (instance,) = await world.store.instances()
    return instance.state == "parked"


async def polled(world: World) -> None:
    """Nothing can call in: the decision is long-polled."""
    key = await world.save("approved")
    await world.start("worker")
    await world.submitted(key)
    await world.when(lambda: any("?wait=" in read for read in world.peer.reads))
    await asyncio.sleep(1.0)  # longer than a third of the lease
    await world.decided(key)


# The receiver breaks, or a harness over its control API


async def first_receiver(world: World) -> None:
    """A receiver makes its key and the store; then a registration is verified and a notification comes, early."""
    await world.start("receiver")
    await world.when(lambda: (world.folder / "receiver.key").exists())
    await world.when(lambda: _opened(world))
    await world.register(verified=False)
    reply = await world.deliver(lambda: world.sender.verification(world.registration_id))
    assert b"challenge" in reply.body
    await world.employ()
    await world.notify(new_id())


async def notified(world: World) -> None:
    """Notifications of an approval and a denial come, each more than once; a worker acts on them."""
    keys = [await world.save("approved"), await world.save("denied")]
    await world.start("worker")
    await world.start("receiver")
    for key in keys:
        await world.decided(key)
        request_id = world.request(key)["id"]
        event_id = await world.notify(request_id)
        await world.notify(request_id, event_id)


async def refused(world: World) -> None:
    """Junk is refused and kept in the ring; health and metrics are asked for; a genuine delivery comes."""
    await world.start("receiver")
    junk = world.sender.notification(new_id()).with_headers(webhook_signature="v1,AAAA")
    await world.when(lambda: _refused(world, junk))
    await world.when(lambda: _answers(world, "readyz", b"true"))
    await world.when(lambda: _answers(world, "metrics", b"wakegate_store_up 1.0"))
    await world.when(lambda: _kept(world, junk))
    await world.notify(new_id())


async def _refused(world: World, junk: Delivery) -> bool:
    reply = await world.post(junk)
    return reply is not None and reply.status == 401


async def _kept(world: World, junk: Delivery) -> bool:
    """Send junk until it is found in the ring's file: what a kill took with it from memory was promised to nobody."""
    if (world.folder / "refusals.jsonl").exists():
        return True
    await world.post(junk)
    await asyncio.sleep(0.2)
    return False


async def _answers(world: World, path: str, told: bytes) -> bool:
    connector = aiohttp.UnixConnector(str(world.folder / "control.sock"))
    async with aiohttp.ClientSession(connector=connector) as session:
        try:
            async with session.get(f"http://control/{path}") as answer:
                return answer.status == 200 and told in await answer.read()
        except (aiohttp.ClientError, OSError):
            return False


async def watched(world: World) -> None:
    """A receiver runs for long enough to look at the WAL, where there is one; a genuine delivery comes."""
    await world.start("receiver")
    if world.place.ground.database == "sqlite":
        await world.when(lambda: any(point.startswith("store.read:wal.") for point in world.reached))
    await world.notify(new_id())


async def _client(world: World, story: str, call: Call, *, pause: float = 0.0) -> None:
    key = new_id()
    world.calls[key] = call
    for program, arguments in (("worker", ()), ("receiver", ()), ("client", (story, key))):
        await world.start(program, *arguments)
    await world.when(lambda: _under_way(world, key))
    if call.fate == "approved" and key in world.peer.keys:
        await asyncio.sleep(pause)
        await world.decided(key)
    await world.at_end("client")


async def _under_way(world: World, key: str) -> bool:
    """Whether the provider has the call, or a hold that was lost has ended it before."""
    return key in world.peer.keys or any(e.resolved for e in await world.executions() if e.idempotency_key == key)


async def granted(world: World) -> None:
    """A harness takes a call over the control API, renews and finishes it."""
    await _client(world, "grant", Call("approved"))


async def held_over_control(world: World) -> None:
    """A harness holds a call over the control API for longer than a third of the hold, and runs it."""
    await _client(world, "hold", Call("approved", held=True), pause=0.8)


async def followed(world: World) -> None:
    """A harness seals a group over the control API, follows the stream and lists its calls."""
    await _client(world, "turn", Call("approved"))


async def abandoned_over_control(world: World) -> None:
    """A harness gives its call up over the control API."""
    await _client(world, "abandon", Call("abandoned"))


# The harness breaks


async def _harness(world: World, story: str, call: Call, *, pause: float = 0.0) -> str:
    key = new_id()
    world.calls[key] = call
    await world.start("worker")
    await world.start("harness", story, key)
    await world.when(lambda: _under_way(world, key))
    if call.fate == "approved" and key in world.peer.keys:
        await asyncio.sleep(pause)
        await world.decided(key)
    return key


async def suspended(world: World) -> None:
    """A harness saves a call and waits."""
    await _harness(world, "suspend", Call("approved"))


async def claimed(world: World) -> None:
    """A harness claims a call and runs it for longer than a third of the lease."""
    await _harness(world, "claim", Call("approved"))


async def claimed_for_long(world: World) -> None:
    """A harness loses its lease and says so when it comes to itself."""
    await world.comes_out(await _harness(world, "claim_and_stall", Call("approved")))


async def held(world: World) -> None:
    """A harness holds a call for longer than a third of the hold, and runs it."""
    await _harness(world, "hold", Call("approved", held=True), pause=0.8)


async def abandoned(world: World) -> None:
    """A harness gives its call up."""
    await _harness(world, "abandon", Call("abandoned"))


async def turned(world: World) -> None:
    """A harness seals a group, follows the stream and lists its calls."""
    await _harness(world, "turn", Call("approved"))
    await world.at_end("harness")


STORIES = (
    Story("worker", approved_and_denied),
    Story("worker", permitted),
    Story("worker", given_up),
    Story("worker", parked),
    Story("worker", polled, delivery="none"),
    Story("worker", given_up_while_submitting),
    Story("worker", consumed),
    Story("worker", given_up_while_consuming),
    Story("worker", adopted),
    Story("worker", adopted_for_long),
    Story("worker", approved_early),
    Story("worker", in_doubt),
    Story("worker", in_doubt_for_long),
    Story("worker", fallen_silent),
    Story("worker", orphaned),
    Story("worker", replaced),
    Story("worker", told_as_a_group),
    Story("worker", told_by_an_entry_point),
    Story("worker", first_start, fresh=True),
    Story("receiver", notified),
    Story("receiver", first_receiver, fresh=True),
    Story("receiver", refused),
    Story("receiver", watched),
    Story("receiver", granted),
    Story("receiver", held_over_control),
    Story("receiver", followed),
    Story("receiver", abandoned_over_control),
    Story("harness", suspended),
    Story("harness", claimed),
    Story("harness", held),
    Story("harness", claimed_for_long),
    Story("harness", abandoned),
    Story("harness", turned),
    Story("client", granted),
    Story("client", held_over_control),
    Story("client", followed),
    Story("client", abandoned_over_control),
)
"""For each point the first story that reaches it is the one it is broken in."""
