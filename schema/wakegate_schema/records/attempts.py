"""Attempts: what a claim gives, and how a started call ends."""

from dataclasses import dataclass, field
from typing import Literal

from wakegate_schema.records.executions import Execution


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a started attempt ended, as its holder says.

    `succeeded`: it returned. `failed`: it is known not to have happened. `in_doubt`: nobody knows.
    `not_begun`: the permission was spent, but the call was never begun (recorded as lapsed).
    """

    kind: Literal["succeeded", "failed", "in_doubt", "not_begun"]
    reason: str
    result: bytes | None = field(default=None, repr=False)
    """JSON, UTF-8."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """An attempt given to a harness: the call, and what renewing and finishing it require."""

    execution: Execution
    attempt_token: str = field(repr=False)
