"""The policy file: which tools are approved, denied or asked about, and whether approvals can be consumed."""

import difflib
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from wakegate_schema import timestamps
from wakegate_schema.clock import MINUTE
from wakegate_schema.errors import WakegateError

DEFAULT_APPROVAL_TTL = 15 * MINUTE
MAX_NOTE = 2000

Text = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NOTE)]


class PolicyError(WakegateError):
    """The policy file is malformed."""

    reason = "policy"


@dataclass(frozen=True, slots=True)
class Rule:
    """What the provider does with the calls of the tools that a glob names."""

    tool: str
    decision: Literal["approve", "deny", "ask"]
    note: str | None = None
    approval_ttl: int = DEFAULT_APPROVAL_TTL
    """µs from an approval to its `expires_at`, also when a person approves without saying how long."""
    delay: int = 0
    """µs from the request to the decision; 0 decides with the creation's answer."""


ASK = Rule("*", "ask")


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules in the order of the file."""

    rules: tuple[Rule, ...] = ()
    consumption: bool = False
    """Whether the provider takes consumptions and reports of outcomes, as newer ones do."""

    def rule_for(self, tool: str) -> Rule:
        """Return the first rule whose glob matches the tool's whole name, case-sensitively; else ask."""
        return next((rule for rule in self.rules if fnmatchcase(tool, rule.tool)), ASK)


def load_policy(path: Path | None) -> Policy:
    """Read a policy file (TOML, `[[rule]]` tables); without one every call is asked about.

    Raises:
        PolicyError: the file is missing or malformed; one line names the file, the rule and the key.
    """
    if path is None:
        return Policy()
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PolicyError(f"cannot read the policy file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PolicyError(f"the policy file {path} is not UTF-8") from error
    return parse_policy(text, str(path))


def parse_policy(text: str, name: str) -> Policy:
    """Make a policy of a file's text.

    Args:
        text: TOML.
        name: what errors call the file.

    Raises:
        PolicyError: as `load_policy`.
    """
    try:
        tables = _File.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"the policy file {name} is not TOML: {error}") from error
    except ValidationError as error:
        raise PolicyError(f"the policy file {name} is malformed: {_first(error)}") from error
    return Policy(tuple(table.rule() for table in tables.rule), tables.consumption)


def _first(error: ValidationError) -> str:
    """Name the first fault: `rule 2, approval_ttl: …`, rules counted from 1."""
    fault = error.errors(include_url=False, include_input=False)[0]
    where = [f"{part + 1}" if isinstance(part, int) else part for part in fault["loc"]]
    place = " ".join(where[:2]) + "".join(f", {part}" for part in where[2:])
    return f"{place}: {_said(fault)}"


def _said(fault: ErrorDetails) -> str:
    """Say what is right, in words of this file."""
    expected = fault.get("ctx", {}).get("expected")
    match fault["type"]:
        case "extra_forbidden":
            return f"unknown key{_meant(str(fault['loc'][-1]), inside=len(fault['loc']) > 1)}"
        case "missing":
            return "is missing"
        case "literal_error":
            return f"must be {expected}"
        case "string_type":
            return "must be text in quotes"
        case "bool_type":
            return "must be true or false"
        case "string_too_short":
            return "is empty"
        case "string_too_long":
            return f"is over {MAX_NOTE} characters"
        case "list_type" | "model_type":
            return "must be tables, each [[rule]]"
        case _:
            return fault["msg"].removeprefix("Value error, ")


def _meant(key: str, *, inside: bool) -> str:
    """Return a hint at the key that was meant: one that is spelt like it, or has it in it."""
    known = list(_Table.model_fields) if inside else list(_File.model_fields)
    close = difflib.get_close_matches(key, known, n=1) or [name for name in known if key in name or name in key]
    close = close or difflib.get_close_matches(key, [part for name in known for part in name.split("_")], n=1)
    meant = next((name for name in known if close and close[0] in name), None)
    return f"; did you mean {meant}?" if meant else f"; there are {', '.join(known)}"


class _Table(BaseModel):
    """One `[[rule]]` table as it is written."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    tool: Text
    decision: Literal["approve", "deny", "ask"]
    note: Text | None = None
    approval_ttl: str | None = None
    delay: str | None = None

    @field_validator("approval_ttl", "delay")
    @classmethod
    def _duration(cls, text: str) -> str:
        try:
            timestamps.duration(text)
        except timestamps.MalformedTime as error:
            raise ValueError("must be a duration like 15m (a whole number and s, m or h)") from error
        return text

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.decision == "ask" and (self.note is not None or self.delay is not None):
            raise ValueError("note and delay belong to approve or deny, not to ask")
        if self.decision == "deny" and self.approval_ttl is not None:
            raise ValueError("approval_ttl belongs to approve or ask, not to deny")
        return self

    def rule(self) -> Rule:
        return Rule(
            tool=self.tool,
            decision=self.decision,
            note=self.note,
            approval_ttl=timestamps.duration(self.approval_ttl) if self.approval_ttl else DEFAULT_APPROVAL_TTL,
            delay=timestamps.duration(self.delay) if self.delay else 0,
        )


class _File(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    rule: Annotated[list[_Table], Field(max_length=1000)] = []
    consumption: bool = False
