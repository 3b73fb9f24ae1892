"""A refund desk: a LangGraph agent whose tool waits for a person, by the public SDK alone.

It works in the folder it runs in: `desk.json` says where provider, bank and port are, `instance.token` is the gate's
credential, `checkpoints.db` has the runs. `refund_desk.py ask THREAD WISH` calls `ask` below, and so on.
"""

import asyncio
import json
import os
import re
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from agentapprovalprotocol import AsyncClient, Receiver
from agentapprovalprotocol.langgraph import ApprovalMiddleware, resumer
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

DESK = json.loads(Path("desk.json").read_text())
TOKEN = Path("instance.token").read_text().strip()


@tool
def refund(payment_id: str, amount: int) -> str:
    """Pay an amount back, in cents."""
    order = json.dumps({"payment_id": payment_id, "amount": amount, "process": os.getpid()}).encode()
    asked = urllib.request.Request(DESK["bank"], order, {"Idempotency-Key": payment_id})
    with urllib.request.urlopen(asked) as answer:
        return f"refunded as {json.load(answer)['refund_id']}"


class ScriptedModel(BaseChatModel):
    """In a model's place, so that nothing leaves this machine; it answers from the conversation alone."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **how: Any) -> Any:
        """Take any tools."""
        return self

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **how: Any) -> Any:
        results = [each for each in messages if isinstance(each, ToolMessage)]
        text = "; ".join(f"{each.tool_call_id}: {each.content}" for each in results)
        calls = [
            {"name": "refund", "args": {"payment_id": payment, "amount": int(amount)}, "id": payment}
            for payment, amount in re.findall(r"(pay-\d+) (\d+)", str(messages[0].content))
        ]
        said = AIMessage(text) if results else AIMessage("I propose these refunds.", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=said)])


@asynccontextmanager
async def graph() -> AsyncIterator[Any]:
    """Give the agent, with its checkpoints on disk: a pause outlives the process."""
    gate = ApprovalMiddleware(DESK["provider"], TOKEN, mode="async")
    async with AsyncSqliteSaver.from_conn_string("checkpoints.db") as checkpoints:
        yield create_agent(ScriptedModel(), tools=[refund], middleware=[gate], checkpointer=checkpoints)


async def ask(thread: str, wish: str) -> None:
    """Make the agent run until it pauses or ends."""
    async with graph() as agent:
        await agent.ainvoke({"messages": [("user", wish)]}, {"configurable": {"thread_id": thread}})


async def show(*threads: str) -> None:
    """Write where runs stand: what is next (nothing: it has ended), and what was said last."""
    async with graph() as agent:
        for thread in threads:
            state = await agent.aget_state({"configurable": {"thread_id": thread}})
            last = state.values["messages"][-1].content
            print(json.dumps({"thread": thread, "next": state.next, "said": last}))


async def serve() -> None:
    """Take notifications and resume the runs that wait for them."""
    kept = json.loads(Path("receiver.json").read_text())
    async with graph() as agent:
        client = AsyncClient(DESK["provider"], TOKEN)
        receiver = Receiver(resumers={"langgraph": resumer(agent)}, client=client, **kept)
        await uvicorn.Server(uvicorn.Config(receiver.asgi(), port=DESK["port"], log_level="warning")).serve()


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
