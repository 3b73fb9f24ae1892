"""Asking: a request to the control API, once it is known who asks and for what."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from wakegate_receiver.control.identity import Visitor
from wakegate_receiver.control.news import News
from wakegate_receiver.control.numbering import Numbering
from wakegate_receiver.control.visits import Visit
from wakegate_schema.calls import Calls
from wakegate_schema.store import Store


@dataclass(frozen=True, slots=True)
class Tools:
    """What the verbs work with, besides the calls of who asks."""

    store: Store
    news: News
    numbering: Numbering
    calls: Callable[[Visitor], Calls]
    """Gives the calls within a visitor's scope."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request."""

    visitor: Visitor
    again: Callable[[], Visitor]
    """Tells who asks by now. Raises as the first look at it did."""
    tools: Tools
    request: web.BaseRequest
    path: Mapping[str, str] = field(default_factory=dict)
    """What stands in the path's place holders."""
    query: Mapping[str, Any] = field(default_factory=dict)
    """The parameters, read."""
    body: Any = field(default=None, repr=False)
    """The body, read."""
    room: bool = field(kw_only=True)
    """Whether there is room for one more request that lasts."""
    lasting: Callable[[], AbstractContextManager[Visit]] = field(kw_only=True)
    """Makes a visit of it."""

    @property
    def calls(self) -> Calls:
        """The calls of who asks."""
        return self.tools.calls(self.visitor)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a request is answered."""

    value: Any = field(repr=False)
    """JSON values, or the bytes of JSON."""
    status: int = 200
    execution_id: str | None = None
    """For the log line."""
