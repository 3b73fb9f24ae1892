"""Wake targets: where the operator lets a resolution be sent, under names that harnesses choose from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from wakegate_schema import setting_types as types
from wakegate_schema.setting_types import one_of, seconds, table_name, text
from wakegate_schema.urls import MalformedUrl, webhook_url

NONE = "none"
"""The target that is always there: nobody is woken, the harness asks."""
PROGRAM_TIMEOUT_S: Final = 30.0
"""How long a program may take for a wake, in seconds, unless its table says otherwise."""
LONGEST_TIMEOUT_S: Final = 600.0

_MOST_ARGUMENTS = 100

Kind = Literal["http", "command", "python"]


@dataclass(frozen=True, slots=True)
class WakeTarget:
    """One place a harness may be woken at."""

    name: str
    kind: Literal["http", "command", "python", "none"]
    url: str | None = field(default=None, repr=False)
    """Where to POST (kind `http`); only this origin is ever called."""
    argv: tuple[str, ...] = field(default=(), repr=False)
    """The program and its arguments (kind `command`), as they are: there is no shell."""
    entry_point: str | None = None
    """`module:function` (kind `python`), imported by a process of its own."""
    directory: Path | None = None
    """Where the program runs; None for `/`. An entry point is looked for there first."""
    timeout: float = PROGRAM_TIMEOUT_S
    """Seconds that the program may take before it is killed."""

    @property
    def runs_a_program(self) -> bool:
        """Whether a wake starts a process."""
        return self.kind in ("command", "python")


def wake_url(value: object) -> str:
    """Accept an https URL, or an http one on loopback, without user, password or fragment."""
    try:
        return webhook_url(text(value))
    except MalformedUrl as error:
        raise ValueError(f"must be an https URL (http only on loopback): {error}") from None


def wake_argv(value: object) -> tuple[str, ...]:
    """Accept a list of a program's absolute path and its arguments."""
    if not isinstance(value, list | tuple) or not value or not all(isinstance(part, str) for part in value):
        raise ValueError('must be a list of texts, the program first: ["/usr/bin/program", "argument"]')
    if any("\0" in part for part in value) or len(value) > _MOST_ARGUMENTS:
        raise ValueError(f"has a NUL character in it, or more than {_MOST_ARGUMENTS} parts")
    if not value[0].startswith("/") or value[0].endswith("/"):
        raise ValueError("must begin with the program's absolute path; nothing is looked up and there is no shell")
    return tuple(value)


class WakeTable(BaseModel):
    """A `[wake.NAME]` table of the settings file: its kind, and what belongs to that."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True)

    kind: Annotated[Kind, one_of("http", "command", "python")]
    url: Annotated[str, BeforeValidator(wake_url)] | None = Field(default=None, repr=False)
    argv: Annotated[tuple[str, ...], BeforeValidator(wake_argv)] | None = Field(default=None, repr=False)
    entry_point: Annotated[str, BeforeValidator(types.entry_point)] | None = None
    directory: Annotated[Path, BeforeValidator(types.directory)] | None = None
    timeout: Annotated[float, seconds(1, LONGEST_TIMEOUT_S)] | None = None

    @field_validator("url", "argv", "entry_point", "directory", "timeout", mode="wrap")
    @classmethod
    def _belongs(cls, value: Any, read: Any, info: ValidationInfo) -> Any:
        """Ask for what the kind needs, and refuse what belongs to another, each by its own name."""
        kind, name = info.data.get("kind"), str(info.field_name)
        if kind is None:  # that is what is wrong
            return None
        if value is None:
            if name == _NEEDS[kind]:
                raise ValueError("is missing")
            return None
        if kind not in _BELONGS[name]:
            raise ValueError(f"does not belong to kind {kind}, only to {' and '.join(_BELONGS[name])}")
        return read(value)


_NEEDS: Final = {"http": "url", "command": "argv", "python": "entry_point"}
_BELONGS: Final = {
    "url": ("http",),
    "argv": ("command",),
    "entry_point": ("python",),
    "directory": ("command", "python"),
    "timeout": ("command", "python"),
}


def wake_name(name: object) -> str:
    """Accept a target's name, as `table_name` does; not `none`."""
    found = table_name(name)
    if found == NONE:
        raise ValueError("is built in and cannot be redefined; choose another name")
    return found


WakeTables = dict[Annotated[str, BeforeValidator(wake_name)], WakeTable]


def targets(tables: Mapping[str, WakeTable]) -> dict[str, WakeTarget]:
    """Return every target by name, the built-in `none` included."""
    named = {name: _target(name, table) for name, table in tables.items()}
    return {NONE: WakeTarget(NONE, "none"), **named}


def _target(name: str, table: WakeTable) -> WakeTarget:
    return WakeTarget(
        name,
        table.kind,
        url=table.url,
        argv=table.argv or (),
        entry_point=table.entry_point,
        directory=table.directory,
        timeout=PROGRAM_TIMEOUT_S if table.timeout is None else table.timeout,
    )
