"""Wake targets: where the operator lets a resolution be sent, under names that harnesses choose from."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from wakegate_schema.setting_types import one_of, text
from wakegate_schema.urls import MalformedUrl, webhook_url

NONE = "none"
"""The target that is always there: nobody is woken, the harness asks."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class WakeTarget:
    """One place a harness may be woken at."""

    name: str
    kind: Literal["http", "none"]
    url: str | None = field(default=None, repr=False)
    """Where to POST (kind `http`); only this origin is ever called."""


def wake_url(value: object) -> str:
    """Accept an https URL, or an http one on loopback, without user, password or fragment."""
    try:
        return webhook_url(text(value))
    except MalformedUrl as error:
        raise ValueError(f"must be an https URL (http only on loopback): {error}") from None


class WakeTable(BaseModel):
    """A `[wake.NAME]` table of the settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    kind: Annotated[Literal["http"], one_of("http")]
    url: Annotated[str, BeforeValidator(wake_url)] = Field(repr=False)


def wake_name(name: object) -> str:
    """Accept a target's name: a lower-case letter, then up to 62 of a-z, 0-9, _ and -; not `none`."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ValueError("must be a name: a lower-case letter, then up to 62 lower-case letters, digits, _ and -")
    if name == NONE:
        raise ValueError("is built in and cannot be redefined; choose another name")
    return name


WakeTables = dict[Annotated[str, BeforeValidator(wake_name)], WakeTable]


def targets(tables: Mapping[str, WakeTable]) -> dict[str, WakeTarget]:
    """Return every target by name, the built-in `none` included."""
    named = {name: WakeTarget(name, table.kind, table.url) for name, table in tables.items()}
    return {NONE: WakeTarget(NONE, "none"), **named}
