"""What a harness is, and the programs that are run of it."""

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple, Protocol, cast

from agentapprovalprotocol import Request

Resumer = Callable[[Mapping[str, Any], Request], Awaitable[None]]


@dataclass(frozen=True)
class RunState:
    """What a harness has saved of its run."""

    ended: bool
    """Whether the model has given its last answer, and nothing is left to do."""
    waits: tuple[str, ...]
    """The ids of the requests that calls wait for."""
    told: dict[str, str]
    """What the model was told of each call that is over: the call's id → the text."""


class Harness(Protocol):
    """A module with one framework's agent; it works in the folder it runs in."""

    async def start(self) -> None:
        """Make the agent run until it pauses, or ends."""

    async def state(self) -> RunState:
        """Read what is saved."""

    async def change(self, amount: int, other: int) -> None:
        """Change a waiting call's arguments where they are saved: this amount becomes the other."""

    def resumer(self) -> AbstractAsyncContextManager[Resumer]:
        """The harness's resumer: the SDK's own, or one around it."""


class Kind(NamedTuple):
    """A framework's harness, not imported yet."""

    module: str
    packages: tuple[str, ...]
    """The distributions whose versions an observation depends on."""


HARNESSES: Final = {
    "langgraph": Kind(
        "frameworks.support.langgraph_harness", ("langgraph", "langchain", "langgraph-checkpoint-sqlite")
    ),
    "pydantic-ai": Kind("frameworks.support.pydantic_ai_harness", ("pydantic-ai-slim",)),
}
"""By the framework's name, as the SDK's resume handle has it."""


def harness(framework: str) -> Harness:
    """Import a framework's harness."""
    return cast("Harness", importlib.import_module(HARNESSES[framework].module))


def run(framework: str, verb: str, *arguments: str) -> None:
    """Run one of its verbs as a program in this folder; `state` is written to standard output."""
    found = harness(framework)
    if verb == "start":
        asyncio.run(found.start())
    elif verb == "change":
        asyncio.run(found.change(*map(int, arguments)))
    else:
        print(json.dumps(asdict(asyncio.run(found.state()))), flush=True)  # noqa: T201
