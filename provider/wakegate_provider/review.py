"""Review: a person decides, or asks for a second delivery, straight in the provider's store.

The serving process notices within some 20 ms, wakes long polls and delivers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from wakegate_provider import requests
from wakegate_provider.decisions import Outcome, approval, overdue, record, refusal
from wakegate_provider.model import Status, StoredRequest, read_row
from wakegate_provider.policy import MAX_NOTE
from wakegate_provider.store import ProviderStore, open_store
from wakegate_schema import strict_json, timestamps
from wakegate_schema.clock import now
from wakegate_schema.errors import WakegateError
from wakegate_schema.settings import Settings


class ReviewError(WakegateError):
    """The review cannot be carried out."""

    reason = "review"


def decide(
    settings: Settings,
    request_id: str,
    decision: Literal["approve", "deny"],
    *,
    note: str | None = None,
    expires_in: str | None = None,
) -> strict_json.JsonObject:
    """Approve or deny a pending request, with its notification in the same transaction.

    Args:
        settings: names the provider's store.
        request_id: the request, or the beginning of its id.
        decision: what the reviewer says.
        note: shown to the agent; at most `MAX_NOTE` characters.
        expires_in: how long an approval lasts, a duration like 15m; else what the policy says for the tool.

    Returns:
        The request as its instance now reads it.

    Raises:
        ReviewError: `not_found`, `ambiguous`, `already_terminal` (also past the deadline), `malformed_note`,
            `unexpected_expiry` for a denial.
        MalformedTime: `expires_in` is not a duration.
        StoreError: there is no provider store, or it cannot be used now.
    """
    _check_note(note)
    if decision == "deny" and expires_in is not None:
        raise ReviewError("only an approval expires; leave out --expires-in", reason="unexpected_expiry")
    ttl = None if expires_in is None else timestamps.duration(expires_in)
    with _store(settings) as store, store.transaction():
        before = _find(store, request_id)
        after = record(store, before, _outcome(before, decision, now(), note or None, ttl))
    if before.status != "pending" or after.decided_by != "review":
        raise ReviewError(f"request {after.request_id} is already {after.status}", reason="already_terminal")
    return after.view()


def redeliver(settings: Settings, event_id: str) -> str:
    """Deliver an event once more, same id and body, to try a receiver's deduplication.

    Args:
        settings: names the provider's store.
        event_id: the notification, as `list_requests` shows it, or the beginning of its id.

    Returns:
        The whole event id.

    Raises:
        ReviewError: `not_found`, `ambiguous`; `delivery_ended` when its instance was deleted or its retry window is
            over.
        StoreError: as `decide`.
    """
    with _store(settings) as store, store.transaction():
        canonical = _whole_id(store, "notifications_from", event_id, "event")
        if not store.run("redeliver", event_id=canonical, now=now()):
            raise ReviewError(
                f"event {canonical} is not delivered any more: its instance was deleted or its week is over",
                reason="delivery_ended",
            )
    return canonical


def list_requests(
    settings: Settings, *, status: Status | None = None, limit: int | None = None, payload: bool = False
) -> Iterator[strict_json.JsonObject]:
    """Give requests as JSON objects, the newest first.

    Args:
        settings: names the provider's store.
        status: only requests in this state.
        limit: at most so many; all when None.
        payload: also their arguments, contexts, reasonings and timeouts.

    Raises:
        StoreError: as `decide`.
    """
    with _store(settings) as store:
        yield from requests.listed(store, status, limit, payload=payload)


def show_request(settings: Settings, request_id: str) -> strict_json.JsonObject:
    """Return one request with everything that a reviewer must see, and the state of its notification.

    Raises:
        ReviewError: `not_found`, `ambiguous`.
        StoreError: as `decide`.
    """
    with _store(settings) as store:
        row = store.one("listed_request", request_id=_whole_id(store, "requests_from", request_id, "request"))
    if row is None:
        raise _missing(request_id, "request")
    return requests.view(row, payload=True)


def _outcome(
    request: StoredRequest, decision: Literal["approve", "deny"], at: int, note: str | None, ttl: int | None
) -> Outcome:
    """Return what the review comes to: past the deadline, an expiry."""
    if decision == "approve":
        wanted = approval(request, "review", at, note, ttl)
    else:
        wanted = refusal(request, "denied", "review", at, note)
    return overdue(request, at) or wanted


@contextmanager
def _store(settings: Settings) -> Iterator[ProviderStore]:
    store = open_store(settings.provider_database_path, create=False)
    try:
        yield store
    finally:
        store.close()


def _find(store: ProviderStore, request_id: str) -> StoredRequest:
    canonical = _whole_id(store, "requests_from", request_id, "request")
    row = store.one("request_by_id", request_id=canonical)
    if row is None:
        raise _missing(request_id, "request")
    return read_row(StoredRequest, row)


def _whole_id(store: ProviderStore, query: str, text: str, what: str) -> str:
    """Return the one id that is this text or begins with it."""
    found = [str(row["id"]) for row in store.all(query, prefix=text.lower(), limit=20)] if text else []
    if not found:
        raise _missing(text, what)
    if len(found) > 1:
        raise ReviewError(
            f"{text} names {len(found)} of them; give the whole id of one: {', '.join(found)}", reason="ambiguous"
        )
    return found[0]


def _missing(text: str, what: str) -> ReviewError:
    return ReviewError(f"there is no {what} {text}; `wakegate provider requests` lists them", reason="not_found")


def _check_note(note: str | None) -> None:
    if note is None:
        return
    try:
        note.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ReviewError("the note is not valid text", reason="malformed_note") from error
    if len(note) > MAX_NOTE:
        raise ReviewError(f"the note is longer than {MAX_NOTE} characters", reason="malformed_note")
