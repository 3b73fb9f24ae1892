"""The call: exactly what is to be approved and run."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from wakegate_schema import ids, timestamps
from wakegate_schema.calls.errors import CallRefused
from wakegate_schema.calls.exact_json import NotJson, encode
from wakegate_schema.states import State

ARGUMENTS_LIMIT: Final = 256 * 1024
"""Bytes of JSON in a call's arguments."""
CONTEXT_LIMIT: Final = 64 * 1024
"""Bytes of JSON in a call's context. All limits together stay under the 1 MiB that peers read, even fully escaped."""
REASONING_LIMIT: Final = 16 * 1024
"""Bytes of UTF-8 in a call's reasoning."""

_VISIBLE: Final = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call to be approved. Checked when it is made, and from then on fixed.

    Raises:
        CallRefused: some part cannot be saved. Its `path` names the part, such as `arguments.items[3].price`.
    """

    tool: str
    """The tool's name, 1 to 255 printable characters."""
    arguments: Mapping[str, Any] = field(repr=False, compare=False)
    """A JSON object of at most 256 KiB and 60 levels, written as the standard library's `json` writes it."""
    key: str = field(default_factory=ids.new, kw_only=True)
    """The idempotency key, 1 to 255 visible ASCII characters: one per intended call, kept across retries."""
    instance: str | None = field(default=None, kw_only=True)
    """Name or id of the instance to submit under; may be left out when there is exactly one."""
    timeout: str = field(default="30m", kw_only=True)
    """How long the provider may take to decide: a whole number and s, m or h."""
    reasoning: str | None = field(default=None, kw_only=True, repr=False)
    """Why the agent wants it, for the approver; at most 16 KiB."""
    context: Mapping[str, Any] | None = field(default=None, kw_only=True, repr=False, compare=False)
    """A JSON object for the approver, at most 64 KiB. None sends no context, `{}` sends an empty one."""
    group: str | None = field(default=None, kw_only=True)
    """The agent turn the call belongs to, 1 to 255 visible ASCII characters."""
    version: str | None = field(default=None, kw_only=True)
    """The tool's version that the call was made for, 1 to 255 visible ASCII characters."""
    arguments_json: bytes = field(init=False, repr=False)
    """The bytes that are saved."""
    context_json: bytes | None = field(init=False, repr=False)
    """The bytes that are saved."""

    def __post_init__(self) -> None:
        """Check every part, and keep copies that nobody else holds."""
        _name(self.tool, "tool")
        check_visible(self.key, "key")
        for part in ("group", "version"):
            if getattr(self, part) is not None:
                check_visible(getattr(self, part), part)
        if self.instance is not None:
            _name(self.instance, "instance")
        _duration(self.timeout)
        _reasoning(self.reasoning)
        arguments = _object(self.arguments, "arguments", ARGUMENTS_LIMIT)
        context = None if self.context is None else _object(self.context, "context", CONTEXT_LIMIT)
        object.__setattr__(self, "arguments_json", arguments)
        object.__setattr__(self, "context_json", context)
        object.__setattr__(self, "arguments", json.loads(arguments))
        object.__setattr__(self, "context", None if context is None else json.loads(context))


@dataclass(frozen=True, slots=True)
class Ticket:
    """A saved call: what to keep so as to ask for it later."""

    execution_id: str
    key: str
    instance_id: str
    state: State
    """Where it stood when `suspend` returned."""
    created: bool
    """Whether this suspend saved it; False when the same call was saved with this key before."""


def _name(value: object, path: str) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= 255 or not value.isprintable():
        raise CallRefused(path, "it must be 1 to 255 printable characters", reason=f"bad_{path}")


def check_visible(value: object, path: str) -> None:
    """Refuse anything but 1 to 255 visible ASCII characters. Raises `CallRefused`, naming the part by `path`."""
    if not isinstance(value, str) or _VISIBLE.fullmatch(value) is None:
        raise CallRefused(path, "it must be 1 to 255 visible ASCII characters", reason=f"bad_{path}")


def _duration(value: object) -> None:
    try:
        timestamps.duration(value if isinstance(value, str) else "")
    except timestamps.MalformedTime as error:
        raise CallRefused("timeout", str(error), reason="bad_timeout") from None


def _reasoning(value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise CallRefused("reasoning", "it must be text", reason="bad_reasoning")
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        raise CallRefused("reasoning", "the text holds half of a surrogate pair", reason="bad_reasoning") from None
    if "\0" in value:
        raise CallRefused("reasoning", "the text holds U+0000", reason="bad_reasoning")
    if length > REASONING_LIMIT:
        raise CallRefused("reasoning", f"it is longer than {REASONING_LIMIT} bytes", reason="bad_reasoning")


def _object(value: object, path: str, limit: int) -> bytes:
    if not isinstance(value, dict):
        raise CallRefused(path, "it must be a dict", reason="not_json")
    try:
        return encode(value, path, max_bytes=limit)
    except NotJson as error:
        raise CallRefused(error.path, error.problem, reason=error.reason) from None
