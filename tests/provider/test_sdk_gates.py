"""The public SDK's own `Gate` and `AsyncGate`, waiting and pausing, at this provider as a process of its own."""

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from agentapprovalprotocol import Call, Deny, Pending, Receiver, Request
from aiohttp import web

from provider.asking import Looped, Threaded, Tool, ToolBroken, Verdict
from provider.process import Lives
from support.processes import clean_environment
from support.provider import Caller, provider, provider_settings
from wakegate_provider import decide, list_requests, redeliver

pytestmark = pytest.mark.asyncio(loop_scope="module")

Asker = Threaded | Looped
Ask = Callable[..., Asker]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lives(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lives]:
    """One provider, a process that lives as long as the module."""
    made = Lives(tmp_path_factory.mktemp("provider"))
    async with made.life():
        yield made


async def credential(lives: Lives) -> str:
    """Create an instance without delivery."""
    async with aiohttp.ClientSession() as session:
        return await Caller(lives.url, lives.provisioner_token, session).credential()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def token(lives: Lives) -> str:
    return await credential(lives)


@pytest_asyncio.fixture(params=[Threaded, Looped], ids=["Gate", "AsyncGate"], loop_scope="module")
async def ask(request: pytest.FixtureRequest, lives: Lives, token: str) -> AsyncIterator[Ask]:
    """Makes the SDK's gate at the provider, or at another one."""
    made: list[Asker] = []

    def make(url: str = lives.url, token: str = token, **how: Any) -> Asker:
        made.append(request.param(url, token, **how))
        return made[-1]

    yield make
    for each in made:
        await each.close()


@pytest.fixture
def tool() -> Tool:
    return Tool()


def call(tool: str, **more: Any) -> Call:
    """A call that nobody has made before."""
    return Call(f"run:{uuid.uuid4()}", tool, {"amount": 49.5, "order": "№ 7"}, **more)


async def asked(lives: Lives, tool: str) -> str:
    """Return the id of the one request of a tool once it is there."""
    async with asyncio.timeout(30):
        while True:
            for row in list_requests(lives.settings, limit=5):
                if row["tool"] == tool:
                    return str(row["request_id"])
            await asyncio.sleep(0.05)


def denial(verdict: Verdict) -> str:
    """Return why a call does not run, in the SDK's word."""
    assert isinstance(verdict, Deny)
    return verdict.status


async def outcome(asker: Asker, request_id: str) -> str | None:
    """Return what the provider was told of a call."""
    consumption = (await asker.read(request_id)).consumption
    return None if consumption is None or consumption.outcome is None else consumption.outcome.status


async def test_a_call_that_is_approved_while_its_gate_waits_runs_and_its_success_is_told(
    lives: Lives, ask: Ask, tool: Tool
) -> None:
    asker, made = ask(), call("refund_a_" + uuid.uuid4().hex, reasoning="charged twice", server="shop")
    running = asyncio.create_task(asker.run(made, tool))
    request_id = await asked(lives, made.tool)
    assert not tool.ran
    decide(lives.settings, request_id, "approve", note="fine")
    assert await running
    assert tool.ran[made.key] == 1
    request = await asker.read(request_id)
    assert (request.arguments["amount"], request.server) == (Decimal("49.5"), "shop")
    assert await outcome(asker, request_id) == "succeeded"


async def test_a_call_that_is_denied_while_its_gate_waits_does_not_run_and_is_told_why(
    lives: Lives, ask: Ask, tool: Tool
) -> None:
    asker, made = ask(), call("refund_d_" + uuid.uuid4().hex)
    running = asyncio.create_task(asker.run(made, tool))
    decide(lives.settings, await asked(lives, made.tool), "deny", note="ask the customer first")
    verdict = await running
    assert denial(verdict) == "denied"
    assert "ask the customer first" in str(verdict)
    assert not tool.ran


async def test_a_request_that_expires_does_not_run(ask: Ask, tool: Tool) -> None:
    assert denial(await ask(timeout="1s").run(call("refund"), tool)) == "expired"
    assert not tool.ran


async def test_a_gate_that_waits_no_longer_cancels(lives: Lives, ask: Ask, tool: Tool) -> None:
    made = call("refund_c_" + uuid.uuid4().hex)
    assert denial(await ask(wait_limit=0.5).run(made, tool)) == "expired"
    assert not tool.ran
    (row,) = (row for row in list_requests(lives.settings, status="cancelled") if row["tool"] == made.tool)
    assert row["decided_by"] == "instance"


async def test_an_approval_that_ends_on_the_way_is_not_consumed_and_nothing_runs(
    lives: Lives, ask: Ask, tool: Tool
) -> None:
    asker, made = ask(hesitates=1.2), call("short")
    verdict = await asker.run(made, tool)
    assert denial(verdict) == "expired"
    assert isinstance(verdict, Deny)
    assert verdict.request_id is not None
    assert (await asker.read(verdict.request_id)).consumption is None
    assert not tool.ran


async def test_a_call_that_is_seen_again_does_not_run_again(ask: Ask, tool: Tool) -> None:
    made = call("at_once")
    assert await ask().run(made, tool)
    for _ in range(2):
        assert denial(await ask().run(made, tool)) == "consumed"
    assert tool.ran[made.key] == 1


async def test_of_many_gates_at_once_one_runs_the_call(ask: Ask, tool: Tool) -> None:
    asker, made = ask(hesitates=0.1), call("at_once")
    verdicts = await asyncio.gather(*(asker.run(made, tool) for _ in range(6)))
    assert sorted(denial(verdict) for verdict in verdicts if not verdict) == ["consumed"] * 5
    assert tool.ran[made.key] == 1


async def test_a_call_that_fails_is_told_so_and_does_not_run_again(ask: Ask, tool: Tool) -> None:
    asker, made = ask(), call("at_once")
    tool.breaks = True
    with pytest.raises(ToolBroken):
        await asker.run(made, tool)
    verdict = await asker.run(made, tool)
    assert isinstance(verdict, Deny)
    assert verdict.request_id is not None
    assert (verdict.status, await outcome(asker, verdict.request_id)) == ("consumed", "failed")
    assert tool.ran[made.key] == 1


async def test_a_harness_that_is_killed_with_its_permission_has_spent_it(lives: Lives, token: str, tool: Tool) -> None:
    asker, made = Threaded(lives.url, token), Call(str(uuid.uuid4()), "at_once", {"amount": 4900})
    harness = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("killed_harness.py")),
        *(lives.url, token, made.key),
        env=clean_environment(),
        stdout=asyncio.subprocess.PIPE,
    )
    assert harness.stdout is not None
    assert await harness.stdout.readline() == b"allowed\n"
    harness.kill()
    await harness.communicate()
    verdict = await asker.run(made, tool)
    assert isinstance(verdict, Deny)
    assert verdict.request_id is not None
    assert (verdict.status, await outcome(asker, verdict.request_id)) == ("consumed", None)
    assert not tool.ran
    await asker.close()


async def test_a_provider_that_is_killed_between_commit_and_answer_allows_the_call_once(
    ask: Ask, tool: Tool, tmp_path: Path
) -> None:
    lives, made = Lives(tmp_path), call("at_once")
    async with lives.life("committed:consume") as process:
        asker = ask(lives.url, await credential(lives))
        running = asyncio.create_task(asker.run(made, tool))
        assert await process.wait() == -9
        assert not tool.ran
    async with lives.life():  # meanwhile the SDK asks again with its key
        assert await running
        (row,) = list_requests(lives.settings)
        assert (row["outcome"], tool.ran[made.key]) == ("succeeded", 1)
        assert denial(await asker.run(made, tool)) == "consumed"
    assert tool.ran[made.key] == 1


@asynccontextmanager
async def receiving(lives: Lives, resumer: Callable[[Request], Any]) -> AsyncIterator[str]:
    """Serve the SDK's own receiver, provisioned at the provider; gives the instance's credential."""

    async def resume(handle: Mapping[str, Any], request: Request) -> None:
        assert handle == {"framework": "test", "thread": "7"}
        await resumer(request)

    receiver = Receiver(resumers={"test": resume})

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        status, body = await receiver.handle(dict(request.headers), await request.read())
        return web.Response(status=status, body=body)

    runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        made = await receiver.provision(
            provider_url=lives.url,
            provisioner_token=lives.provisioner_token,
            url=f"http://127.0.0.1:{runner.addresses[0][1]}/aap/events",
        )
        yield made.token
        assert receiver.client is not None
        await receiver.client.aclose()
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(("end", "told"), [("approve", None), ("deny", "denied"), ("expire", "expired")])
async def test_a_gate_that_pauses_decides_when_the_sdk_s_receiver_wakes_it(
    lives: Lives, ask: Ask, tool: Tool, end: str, told: str | None
) -> None:
    woken: asyncio.Queue[Verdict] = asyncio.Queue()
    made = call("refund_p_" + uuid.uuid4().hex, resume={"framework": "test", "thread": "7"})

    async def resume(request: Request) -> None:
        assert (request.context or {})["call_id"] == made.key
        woken.put_nowait(await again.run(made, tool))

    async with receiving(lives, resume) as token:
        how: dict[str, Any] = {"token": token, "mode": "async", "timeout": "1s" if end == "expire" else "30m"}
        first, again = ask(**how), ask(**how)
        paused = await first.check(made)
        assert isinstance(paused, Pending)
        if end != "expire":
            decide(lives.settings, paused.request_id, "approve" if end == "approve" else "deny")
        async with asyncio.timeout(30):
            verdict = await woken.get()
        assert tool.ran[made.key] == (1 if told is None else 0)
        if told is not None:
            assert denial(verdict) == told
            return
        assert verdict
        assert await outcome(first, paused.request_id) == "succeeded"
        (row,) = (row for row in list_requests(lives.settings, limit=9) if row["tool"] == made.tool)
        redeliver(lives.settings, str(row["event_id"]))  # a wake that comes twice
        async with asyncio.timeout(30):
            assert denial(await woken.get()) == "consumed"
        assert tool.ran[made.key] == 1


async def test_a_call_that_was_paused_can_be_waited_for(ask: Ask) -> None:
    asker, made = ask(mode="async", timeout="30m"), call("soon")
    assert isinstance(await asker.check(made), Pending)
    assert await ask(mode="sync", timeout="30m").check(made)
    assert denial(await asker.check(made)) == "consumed"


async def test_at_an_older_provider_the_gates_run_nothing(ask: Ask, tool: Tool, tmp_path: Path) -> None:
    policy = '[[rule]]\ntool = "*"\ndecision = "approve"\n'
    async with provider(provider_settings(tmp_path, policy)) as caller:
        verdict = await ask(caller.url, await caller.credential()).run(call("at_once"), tool)
    assert denial(verdict) == "error"
    assert not tool.ran
