"""The explanation of an inspected delivery: which secret, which bytes, which check, and what would have matched.

Nothing of the body but ids is in it, and never a secret.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from wakegate_console import views
from wakegate_console.capture import Capture
from wakegate_console.inspection import Inspection
from wakegate_console.near_misses import WORDS, Sent, near_misses
from wakegate_receiver.answers import ANSWERS
from wakegate_receiver.keyring import Keyring
from wakegate_receiver.messages import VERIFICATION, Message
from wakegate_schema import ids, signing, timestamps
from wakegate_schema.clock import HOUR, MINUTE, SECOND
from wakegate_schema.ids import MalformedId
from wakegate_schema.records import Registration
from wakegate_schema.signing import SigningSecret
from wakegate_schema.timestamps import MalformedTime

View = dict[str, Any]

SHOWN: Final = 5
"""Near misses that are shown."""
OTHER: Final = "other_secret"
"""The word for a signature that is right under a secret that does not speak for the message."""
OTHER_TEXT: Final = "the message had been of this registration, whose secret signed exactly these bytes"
NO_MISS: Final = (
    "no usual mistake gives this signature: another secret signed it, or these are not the bytes that were signed"
)


@dataclass(frozen=True, slots=True)
class Known:
    """What the store and the refusals file know; nothing of it with `--secret-file`."""

    registrations: Mapping[str, Registration] = field(default_factory=dict)
    keyring: Keyring | None = None
    refusals: tuple[dict[str, Any], ...] = ()

    def secret_of(self, registration_id: str) -> SigningSecret | None:
        """Return a registration's secret, or None for one that is erased or sealed under another key."""
        if self.keyring is None:
            return None
        return next(iter(self.keyring.secrets_for(Message(VERIFICATION, registration_id, {})).values()), None)


def explain(found: Inspection, capture: Capture | None, known: Known, *, at: int | None, now: int) -> View:
    """Return the report as JSON has it.

    Args:
        found: from `inspect`.
        capture: what was inspected.
        known: what else is known here.
        at: when it was received (µs), None for now.
        now: this moment (µs).
    """
    misses = _near_misses(found, capture, known)[:SHOWN]
    lost = not misses and any(check.reason == "wrong_signature" for check in found.checks)
    return {
        **_verdict(found),
        **_secrets(found, known),
        "signature_hint": NO_MISS if lost else None,
        **_bytes(found, capture),
        **_ids(found),
        **_times(found, at, now),
        "refused_before": _refused_before(found, known),
        "checks": [{"check": c.name, "result": c.result, "reason": c.reason} for c in found.checks],
        "near_misses": misses,
    }


def _verdict(found: Inspection) -> View:
    reason = found.reason
    if reason is None:
        status = 200 if found.message is not None and found.message.kind == VERIFICATION else 204
        said = "if the store's record, which is not looked at here, has nothing against it"
        return {"verdict": "passes", "reason": None, "answer": status, "told": None, "situation": said}
    answer = ANSWERS[reason]
    return {
        "verdict": "refused",
        "reason": reason,
        "answer": answer.status,
        "told": answer.told or reason,
        "situation": answer.situation,
    }


def _secrets(found: Inspection, known: Known) -> View:
    signer = None if found.signer is None else _called(found.signer, known)
    return {"signed_by": signer, "secrets_tried": ", ".join(_called(name, known) for name in found.secrets) or None}


def _called(name: str, known: Known) -> str:
    record = known.registrations.get(name)
    return name if record is None else f"registration {name} ({record.name}, {record.state})"


def _bytes(found: Inspection, capture: Capture | None) -> View:
    body = found.body
    return {
        "bytes": None if body is None else len(body),
        "body_sha256": None if body is None else hashlib.sha256(body).hexdigest(),
        "bytes_after_the_end": max(0, capture.surplus) if capture is not None else None,
        "bytes_missing": max(0, -capture.surplus) if capture is not None else None,
    }


def _ids(found: Inspection) -> View:
    value = {} if found.message is None else found.message.value
    names = ("id", "instance_id", "registration_id", "request_id")
    return {
        "type": None if found.message is None else found.message.kind,
        "webhook_id": None if found.headers is None else found.headers.message_id,
        **{f"body_{name}" if name == "id" else name: _id(value.get(name)) for name in names},
    }


def _id(value: object) -> str | None:
    """Return an id; anything else in its place is not for showing."""
    try:
        return ids.parse(value) if isinstance(value, str) else None
    except MalformedId:
        return None


def _times(found: Inspection, at: int | None, now: int) -> View:
    """Return what the timestamp's check says at the receipt and says now."""
    if found.headers is None:
        return {}
    timestamp = found.headers.timestamp
    view: View = {"webhook_timestamp": timestamp, "signed_at": _moment(timestamp), "received_at": views.moment(at)}
    for name, when in (("timestamp_then", at), ("timestamp_now", now)):
        view[name] = None if when is None else _said(timestamp, when)
    view["timestamp_hint"] = _hint(timestamp, now if at is None else at)
    return view


def _moment(timestamp: int) -> str | None:
    try:
        return timestamps.render(timestamp * SECOND)
    except MalformedTime:
        return None


def _said(timestamp: int, when: int) -> str:
    off = when // SECOND - timestamp
    verdict = "passes" if signing.fresh(timestamp, when / SECOND) else "timestamp_off"
    return f"{verdict}: {abs(off)} s {'ago' if off >= 0 else 'ahead'}"


def _hint(timestamp: int, when: int) -> str | None:
    """Return what would have made the timestamp one that passes."""
    if signing.fresh(timestamp, when / SECOND):
        return None
    if signing.fresh(timestamp // 1000, when / SECOND):
        return "it is in milliseconds; Unix seconds are wanted"
    off = when - timestamp * SECOND
    whole = round(off / (15 * MINUTE)) * 15 * MINUTE
    if abs(off) <= 15 * HOUR and signing.fresh(timestamp, (when - whole) / SECOND):
        return f"it is off by {whole / HOUR:+g} hours: local time was taken for UTC, if this is no old capture"
    return "if this is an old capture, give the time of its receipt with --at"


def _refused_before(found: Inspection, known: Known) -> str | None:
    """Return what the receiver said of these bytes the last time it refused them."""
    if found.body is None:
        return None
    digest = hashlib.sha256(found.body).hexdigest()
    last = next((entry for entry in reversed(known.refusals) if entry["body_sha256"] == digest), None)
    return None if last is None else f"{last['reason']} at {views.moment(last['at'])}"


def _near_misses(found: Inspection, capture: Capture | None, known: Known) -> list[View]:
    """Return the wrong ways of signing that give the signature, where the right one does not."""
    if capture is None or found.body is None or found.signer is not None:
        return []
    parts = {name.lower(): value for name, value in capture.raw}
    message_id, timestamp, signature = (
        parts.get(b"webhook-" + name, b"") for name in (b"id", b"timestamp", b"signature")
    )
    sent = Sent(message_id, timestamp, signature, found.body)
    misses = [
        _miss(_called(name, known), miss.words)
        for name, secret in found.secrets.items()
        for miss in near_misses(secret, sent)
    ]
    return sorted([*_others(found, known), *misses], key=lambda miss: len(miss["words"]))


def _others(found: Inspection, known: Known) -> list[View]:
    """Return the other registrations of the store whose secret signed exactly this."""
    headers, body = found.headers, found.body
    if headers is None or body is None:
        return []
    others = {name: known.secret_of(name) for name in known.registrations if name not in found.secrets}
    secrets = {name: secret for name, secret in others.items() if secret is not None}
    result = signing.verify(secrets, headers, body, headers.timestamp)
    return [_miss(_called(result.key, known), (OTHER,))] if isinstance(result, signing.Verified) else []


def _miss(secret: str, words: tuple[str, ...]) -> View:
    said = [OTHER_TEXT if word == OTHER else WORDS[word] for word in words]
    return {"secret": secret, "words": list(words), "explanation": "; and ".join(said)}
