"""A Pydantic AI agent whose conversation is kept in a file, with a scripted model, its tool gated by the public SDK."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from agentapprovalprotocol.pydantic_ai import ApprovalCapability, pending_request_ids
from agentapprovalprotocol.pydantic_ai import resumer as sdk_resumer
from pydantic import TypeAdapter
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from frameworks.support import desk as desks
from frameworks.support.desk import THREAD, Desk
from frameworks.support.gates import gate
from frameworks.support.harness import Resumer, RunState
from frameworks.support.points import Point, reach

CONVERSATION: Final = Path("conversation.json")
_STORED: Final = TypeAdapter(Conversation)


def _script(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Answer from the conversation alone, so a process that goes on gets what the one before would have got."""
    if _returns(messages):
        desks.answer()
        return ModelResponse(parts=[TextPart("done")])
    calls = [ToolCallPart("refund", {"amount": each}, tool_call_id=f"call-{each}") for each in Desk.here().amounts]
    return ModelResponse(parts=[TextPart("refunding"), *calls])


def _returns(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


def refund(amount: int) -> str:
    """Pay an amount back."""
    desks.effect(amount)
    reach(Point.IN_TOOL)
    return f"refunded {amount}"


def _agent() -> Agent[None, Any]:
    return Agent(
        FunctionModel(_script),
        output_type=[str, DeferredToolRequests],
        tools=[refund],
        capabilities=[ApprovalCapability(mode="async", gate=gate(Desk.here()))],
    )


async def start() -> None:
    """Run the agent until it pauses."""
    _save((await _agent().run("refund me", conversation_id=THREAD)).conversation)


async def state() -> RunState:
    """Read the conversation."""
    found = _load(THREAD)
    if found is None:
        return RunState(ended=False, waits=(), told={})
    waits = pending_request_ids(found.deferred_tool_requests)
    return RunState(
        ended=found.deferred_tool_requests is None,
        waits=tuple(sorted(waits.values())),
        told={each.tool_call_id: str(each.content) for each in _returns(list(found.messages))},
    )


async def change(amount: int, other: int) -> None:
    """Change the argument wherever the saved conversation has it."""
    found = json.loads(CONVERSATION.read_bytes())
    if not _change(found, {"amount": amount}, {"amount": other}):
        raise LookupError("no saved call has that amount")
    _write(json.dumps(found).encode())


def _change(value: Any, before: dict[str, int], after: dict[str, int]) -> int:
    """Replace the arguments in all that is in a value; return how often."""
    if isinstance(value, list):
        return sum(_change(each, before, after) for each in value)
    if not isinstance(value, dict):
        return 0
    here = value.get("args") == before
    if here:
        value["args"] = after
    return here + sum(_change(each, before, after) for each in value.values())


@asynccontextmanager
async def resumer() -> AsyncIterator[Resumer]:
    """The SDK's resumer."""
    yield sdk_resumer(_agent(), load=_load, save=_save)


def _load(_: str) -> Conversation | None:
    return _STORED.validate_json(CONVERSATION.read_bytes()) if CONVERSATION.exists() else None


def _save(conversation: Conversation) -> None:
    _write(_STORED.dump_json(conversation))
    reach(Point.SAVED)


def _write(conversation: bytes) -> None:
    """Replace the file as a whole: a process that is killed leaves the one before."""
    new = CONVERSATION.with_suffix(".new")
    new.write_bytes(conversation)
    new.replace(CONVERSATION)
