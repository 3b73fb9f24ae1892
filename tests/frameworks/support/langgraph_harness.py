"""A LangGraph agent with a checkpointer on disk and a scripted model, its tool gated by the public SDK."""

import asyncio
import fcntl
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from agentapprovalprotocol import Request
from agentapprovalprotocol.langgraph import INTERRUPT_KEY, ApprovalMiddleware
from agentapprovalprotocol.langgraph import resumer as sdk_resumer
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from frameworks.support import desk as desks
from frameworks.support.desk import THREAD, Desk
from frameworks.support.gates import gate
from frameworks.support.harness import Resumer, RunState
from frameworks.support.points import Point, reach

CHECKPOINTS: Final = "checkpoints.db"
LOCK: Final = "thread.lock"
"""Held by the process that runs the thread; the system lets go of it for one that is killed."""
_LAST: Final = "done"
_CONFIG: Final = {"configurable": {"thread_id": THREAD}}


class Scripted(BaseChatModel):
    """Answers from the conversation alone, so a process that goes on gets what the one before would have got."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **how: Any) -> Any:
        """Take any tools."""
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **how: Any) -> ChatResult:
        if any(isinstance(message, ToolMessage) for message in messages):
            desks.answer()
            said = AIMessage(content=_LAST)
        else:
            calls = [
                {"name": "refund", "args": {"amount": amount}, "id": f"call-{amount}", "type": "tool_call"}
                for amount in Desk.here().amounts
            ]
            said = AIMessage(content="refunding", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=said)])


@tool
def refund(amount: int) -> str:
    """Pay an amount back."""
    desks.effect(amount)
    reach(Point.IN_TOOL)
    return f"refunded {amount}"


class Checkpoints(AsyncSqliteSaver):
    """The framework's checkpointer, which reaches a point once the tools' answers are saved."""

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Save."""
        saved = await super().aput(config, checkpoint, metadata, new_versions)
        if any(isinstance(message, ToolMessage) for message in checkpoint["channel_values"].get("messages", [])):
            reach(Point.SAVED)
        return saved


@asynccontextmanager
async def _graph() -> AsyncIterator[Any]:
    middleware = ApprovalMiddleware(mode="async", async_gate=gate(Desk.here()))
    async with Checkpoints.from_conn_string(CHECKPOINTS) as checkpoints:
        yield create_agent(Scripted(), tools=[refund], middleware=[middleware], checkpointer=checkpoints)


async def start() -> None:
    """Run the agent until it pauses, each step saved before the next."""
    async with _alone(), _graph() as graph:
        await graph.ainvoke({"messages": [("user", "refund me")]}, _CONFIG, durability="sync")


async def state() -> RunState:
    """Read the thread's state."""
    async with _graph() as graph:
        found = await graph.aget_state(_CONFIG)
    messages = found.values.get("messages", [])
    return RunState(
        ended=bool(messages) and messages[-1].content == _LAST and not found.next,
        waits=tuple(sorted(each.value[INTERRUPT_KEY] for each in found.interrupts)),
        told={each.tool_call_id: str(each.content) for each in messages if isinstance(each, ToolMessage)},
    )


async def change(amount: int, other: int) -> None:
    """Change the argument in the saved bytes, so that everything else of the pause stays as it is."""
    await asyncio.to_thread(_rewrite, _packed(amount), _packed(other))


def _packed(amount: int) -> bytes:
    return b"\xa6amount" + bytes([amount])


def _rewrite(before: bytes, after: bytes) -> None:
    with sqlite3.connect(CHECKPOINTS) as connection:
        rewritten = 0
        for table, column in (("checkpoints", "checkpoint"), ("writes", "value")):
            for row, value in connection.execute(f"SELECT rowid, {column} FROM {table}").fetchall():
                if value is not None and before in value:
                    rewritten += 1
                    changed = value.replace(before, after)
                    connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (changed, row))
    connection.close()
    if not rewritten:
        raise LookupError("no saved call has that amount")


@asynccontextmanager
async def resumer() -> AsyncIterator[Resumer]:
    """The SDK's resumer, or one around it that also goes on with what nobody runs: `desk.GOES_ON`."""
    async with _graph() as graph:
        yield partial(_going_on, graph) if Path(desks.GOES_ON).exists() else sdk_resumer(graph)


async def _going_on(graph: Any, handle: Mapping[str, Any], request: Request) -> None:
    """Resume, and go on where a run was killed between two checkpoints: no call waits there, so the SDK's does not."""
    async with _alone():
        await sdk_resumer(graph)(handle, request)
        found = await graph.aget_state(_CONFIG)
        if found.next and not found.interrupts:
            await graph.ainvoke(None, _CONFIG)


@asynccontextmanager
async def _alone() -> AsyncIterator[None]:
    with Path(LOCK).open("w") as file:
        await asyncio.to_thread(fcntl.flock, file, fcntl.LOCK_EX)
        yield
