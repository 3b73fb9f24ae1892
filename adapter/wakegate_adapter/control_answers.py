"""Answers of the control API, read strictly: what is not as it must be is no answer, and permits nothing."""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from wakegate_adapter.control_errors import not_understood
from wakegate_schema import ids, timestamps
from wakegate_schema.calls import Standing
from wakegate_schema.calls.checks import LONGEST_HOLD_S
from wakegate_schema.errors import WakegateError
from wakegate_schema.records import Runs
from wakegate_schema.resolution import Resolution
from wakegate_schema.states import State

_Value = TypeVar("_Value")


def _parsed(parse: Callable[[str], _Value]) -> BeforeValidator:
    """Accept text in the form that `parse` reads, as what it returns."""

    def check(value: object) -> _Value:
        if not isinstance(value, str):
            raise ValueError("must be text")  # noqa: TRY004 (pydantic collects value errors)
        try:
            return parse(value)
        except WakegateError:
            raise ValueError("has another form") from None

    return BeforeValidator(check)


Time = Annotated[int, _parsed(timestamps.parse)]
"""RFC 3339 text, as µs since the Unix epoch."""
Id = Annotated[str, _parsed(ids.parse)]


class _Answer(BaseModel):
    """What an answer must hold; what else it holds is for later versions."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", hide_input_in_errors=True)


class ResolutionAnswer(_Answer):
    """`Resolution.to_json`."""

    id: str = Field(min_length=1)
    execution_id: Id
    key: str
    instance_id: str
    request_id: str | None
    tool: str
    state: Annotated[State, _parsed(State)]
    reason: str | None
    note: str | None
    decided_at: Time | None
    expires_at: Time | None
    result: Any
    error: str | None
    finished_at: Time | None
    group: str | None

    def resolution(self) -> Resolution:
        """Return it as the value it tells of."""
        return Resolution(**{name: getattr(self, name) for name in ResolutionAnswer.model_fields})


class StandingAnswer(ResolutionAnswer):
    """A resolution, and the rest of a standing."""

    runs: Runs
    wake: str
    problem: str | None
    hold_id: str | None
    created_at: Time
    deadline_at: Time | None
    claim_id: str | None
    started_at: Time | None
    explanation: str

    def standing(self) -> Standing:
        """Return it as the value it tells of."""
        names = StandingAnswer.model_fields.keys() - ResolutionAnswer.model_fields.keys() - {"explanation"}
        return Standing(resolution=self.resolution(), **{name: getattr(self, name) for name in names})


class SavedAnswer(StandingAnswer):
    """To a suspension."""

    created: bool


class PageAnswer(_Answer):
    """A page of calls."""

    executions: list[StandingAnswer]
    next: int | None


class AttemptAnswer(_Answer):
    """What a claim gives."""

    number: int = Field(ge=1)
    token: str = Field(min_length=1, max_length=255, repr=False)
    arguments: dict[str, Any] = Field(repr=False)
    idempotency_key: str
    lease_seconds: float = Field(gt=0, le=LONGEST_HOLD_S)
    start_before: Time

    @property
    def arguments_json(self) -> bytes:
        """The saved arguments."""
        return json.dumps(self.arguments, ensure_ascii=False, separators=(",", ":")).encode()


class ClaimAnswer(_Answer):
    """To a claim that was granted."""

    execution: StandingAnswer
    attempt: AttemptAnswer


class RefusedClaimAnswer(_Answer):
    """To a claim that was not."""

    reason: str = Field(min_length=1)
    message: str
    execution: StandingAnswer


class HeldAnswer(_Answer):
    """Whether a hold was lengthened."""

    held: bool


class RenewedAnswer(_Answer):
    """Whether a lease was lengthened, and whether the call is settled."""

    kept: bool
    settled: bool


class HarnessAnswer(_Answer):
    """Who asks."""

    harness: str | None


_Kind = TypeVar("_Kind", bound=_Answer)


def read(kind: type[_Kind], value: Mapping[str, Any]) -> _Kind:
    """Return an answer of this kind. Raises `ControlUnavailable` for what is none; no value is shown."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        places = [".".join(map(str, each["loc"])) for each in error.errors(include_input=False, include_url=False)]
        raise not_understood(f"what it says of {', '.join(places[:5])}") from None
