"""The routes: one table of every path and method, from which requests are read and the document is made."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from wakegate_receiver.control import parameters, requests, shapes, stream, verbs
from wakegate_receiver.control.answers import ANSWERS, ControlRefused
from wakegate_receiver.control.asking import Ask, Reply
from wakegate_receiver.control.parameters import Parameter, read_segment
from wakegate_schema.wire.base import WireModel

PREFIX: Final = "/v1/"
"""How the paths begin that a harness must be known for."""

_CLAIMS: Final = tuple(
    reason for reason, answer in ANSWERS.items() if answer.status == 409 and answer.situation.startswith("a claim of")
)


@dataclass(frozen=True, slots=True)
class Route:
    """One verb."""

    method: str
    path: str
    """With place holders in braces."""
    name: str
    """The operation's id, and its word in the log."""
    summary: str
    handler: Callable[[Ask], Awaitable[Reply | web.StreamResponse]]
    answer: Any
    """The type of a good answer."""
    statuses: tuple[int, ...] = (200,)
    body: type[WireModel] | None = None
    body_required: bool = True
    prepare: Callable[[Any], Any] | None = None
    """Turns the body into what the verb takes."""
    query: tuple[Parameter, ...] = ()
    refusals: tuple[str, ...] = ()
    """Reasons of its own, beside those that every verb has."""
    streams: bool = False


ROUTES: Final[Sequence[Route]] = (
    Route("GET", "/v1/harness", "harness", "Who am I, and which instances may I use?", verbs.who, shapes.HarnessJson),
    Route(
        "POST", "/v1/executions", "suspend", "Save a call durably; the same key with the same call finds it again.",
        verbs.suspend, shapes.SavedJson, (200, 201), requests.SuspendRequest, prepare=verbs.call_of,
        refusals=(
            "bad_tool", "bad_key", "bad_instance", "bad_timeout", "bad_reasoning", "bad_group", "bad_version",
            "bad_wake", "bad_hold_id", "bad_hold_seconds", "too_large", "number_not_exact", "call_refused",
            "unstorable_value", "instance_unclear", "idempotency_conflict", "instance_retired", "group_sealed",
            "group_wakes_another_target", "not_allowed",
        ),
    ),
    Route(
        "GET", "/v1/executions", "list", "List calls, the latest first.", verbs.listed, shapes.PageJson,
        query=(parameters.STATE, parameters.GROUP, parameters.BEFORE, parameters.COUNT), refusals=("bad_group",),
    ),
    Route(
        "GET", "/v1/executions/{execution_id}", "show", "Say where a call stands, at once or when it has changed.",
        verbs.show, shapes.StandingJson, query=(parameters.UNLIKE, parameters.WAIT), refusals=("not_found",),
    ),
    Route(
        "POST", "/v1/executions/{execution_id}/hold", "hold", "Lengthen a hold.", verbs.hold, shapes.HeldJson,
        body=requests.HoldRequest, refusals=("bad_hold_id", "bad_hold_seconds", "not_found"),
    ),
    Route(
        "POST", "/v1/executions/{execution_id}/claim", "claim",
        "Claim a permitted call: its permission is spent, once and for ever.", verbs.claim, shapes.ClaimedJson,
        body=requests.ClaimRequest,
        refusals=("bad_claim_id", "not_found", "already_started", "too_late", "clock_behind", "not_allowed", *_CLAIMS),
    ),
    Route(
        "POST", "/v1/executions/{execution_id}/renew", "renew", "Say that a claimed call still runs.", verbs.renew,
        shapes.RenewedJson, body=requests.AttemptRequest, refusals=("not_found",),
    ),
    Route(
        "POST", "/v1/executions/{execution_id}/finish", "finish", "Record how a claimed call ended; also late.",
        verbs.finish, shapes.StandingJson, body=requests.FinishRequest,
        refusals=("number_not_exact", "unstorable_value", "not_found", "not_your_attempt", "not_allowed"),
    ),
    Route(
        "POST", "/v1/executions/{execution_id}/abandon", "abandon", "Give a call up before it starts.",
        verbs.abandon, shapes.StandingJson, body=requests.AbandonRequest,
        refusals=("bad_reason", "not_found", "already_started", "not_allowed"),
    ),
    Route(
        "POST", "/v1/groups/{group}/seal", "seal",
        "Say that a group is complete: one wake tells of it once all of its calls are resolved.", verbs.seal,
        shapes.GroupJson, body=requests.SealRequest, body_required=False,
        refusals=("bad_group", "bad_parameter", "instance_unclear", "not_found"),
    ),
    Route(
        "GET", "/v1/resolutions", "resolutions", "Stream what the harness is told, as server-sent events.",
        stream.resolutions, shapes.ResolutionJson, query=(parameters.AFTER,), streams=True,
        refusals=("bad_cursor", "too_many_streams"),
    ),
)  # fmt: skip
"""Every verb, but for the document itself."""

_PARTS: Final = [(route, route.path.split("/")) for route in ROUTES]


def routes_at(path: str) -> tuple[list[Route], dict[str, str]]:
    """Return the routes of a path, one for each method, and what stands in its place holders.

    Raises:
        ControlRefused: `wrong_path`, `malformed_path`.
    """
    segments = path.split("/")
    found = [(route, parts) for route, parts in _PARTS if _fits(parts, segments)]
    if not found:
        raise ControlRefused("wrong_path")
    _, parts = found[0]
    return [route for route, _ in found], {
        part[1:-1]: read_segment(segment) for part, segment in zip(parts, segments, strict=True) if _is_holder(part)
    }


def _fits(parts: Sequence[str], segments: Sequence[str]) -> bool:
    return len(parts) == len(segments) and all(
        part == segment or (_is_holder(part) and segment) for part, segment in zip(parts, segments, strict=True)
    )


def _is_holder(part: str) -> bool:
    return part.startswith("{")
