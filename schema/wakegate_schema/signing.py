"""Standard Webhooks signatures with HMAC-SHA256: pure, over exact bytes (AAP, webhooks)."""

import base64
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, NamedTuple, Self, TypeVar

from wakegate_schema import ids
from wakegate_schema.errors import WakegateError

K = TypeVar("K")

TOLERANCE_S: Final = 300
"""Seconds a timestamp may be off, either way. AAP fixes it, so nothing configures it."""
MAX_SIGNATURE_HEADER: Final = 8_192
"""Bytes; this also bounds how many signatures one header can hold, and so the work it can cause."""
TIMESTAMP_PATTERN: Final = "[0-9]{1,20}"
"""The whole form of a `webhook-timestamp`, as a regular expression."""


class MalformedSecret(WakegateError):
    """The signing secret is not whsec_ and the canonical base64 of 32 bytes."""

    reason = "malformed_secret"


class MalformedHeaders(WakegateError):
    """A security header is missing, repeated or malformed."""

    reason = "malformed_headers"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SigningSecret:
    """The 32-byte key of one registration; it shows itself only through `reveal` and `key`."""

    key: bytes
    _mac: hmac.HMAC = field(init=False)
    """Of nothing yet: what every signature begins with."""

    def __post_init__(self) -> None:
        if len(self.key) != 32:
            raise MalformedSecret
        if len(set(self.key)) == 1:
            raise MalformedSecret("The signing secret is one byte repeated: generate one.", reason="weak_secret")
        object.__setattr__(self, "_mac", hmac.new(self.key, digestmod="sha256"))

    @classmethod
    def parse(cls, text: str, *, allow_published: bool = False) -> Self:
        """Read a secret as provisioners write it.

        Args:
            text: `whsec_` and the canonical padded base64 of exactly 32 bytes.
            allow_published: accept the example secret that everybody knows (for tests).

        Raises:
            MalformedSecret: `malformed_secret`, `weak_secret` or `published_secret`; never with the value.
        """
        if _SECRET.fullmatch(text) is None:
            raise MalformedSecret
        secret = cls(base64.b64decode(text.removeprefix("whsec_")))
        if secret.key == _PUBLISHED and not allow_published:
            raise MalformedSecret(
                "The signing secret is the published example: generate one.", reason="published_secret"
            )
        return secret

    @classmethod
    def generate(cls) -> Self:
        """Return a new secret from the system's randomness."""
        return cls(secrets.token_bytes(32))

    def signature(self, *parts: bytes) -> bytes:
        """Return the base64 of the HMAC over these parts, one after the other."""
        mac = self._mac.copy()
        for part in parts:
            mac.update(part)
        return base64.b64encode(mac.digest())

    def reveal(self) -> str:
        """Return the secret's text, for sealing and for the provisioning call only."""
        return "whsec_" + base64.b64encode(self.key).decode()

    def __repr__(self) -> str:
        return "SigningSecret(…)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SigningSecret) and hmac.compare_digest(self.key, other.key)

    def __hash__(self) -> int:
        return hash(self.key)


class SecurityHeaders(NamedTuple):
    """The three security headers of one delivery, well-formed but not yet verified."""

    message_id: str
    """The UUID in lower case, for comparing with the body's."""
    timestamp: int
    """Unix seconds of this attempt."""
    signatures: tuple[bytes, ...]
    """The base64 of every well-formed `v1` signature; others are not kept."""
    prefix: bytes
    """The exact `id.timestamp.` that is signed before the body."""


@dataclass(frozen=True, slots=True)
class Verified(Generic[K]):
    """The delivery is genuine and fresh."""

    key: K
    """Whose secret signed it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The delivery proves nothing."""

    reason: Literal["signature", "timestamp"]


def sign(secret: SigningSecret, message_id: str, timestamp_s: int, body: bytes) -> str:
    """Return the `webhook-signature` value for one attempt.

    Args:
        secret: the registration's.
        message_id: the `webhook-id` header, exactly as sent.
        timestamp_s: the `webhook-timestamp` header, in Unix seconds.
        body: the exact bytes sent.
    """
    return "v1," + secret.signature(f"{message_id}.{timestamp_s}.".encode(), body).decode()


def signed_headers(secrets: Sequence[SigningSecret], message_id: str, timestamp_s: int, body: bytes) -> dict[str, str]:
    """Return the three security headers of one attempt, signed by each of the secrets; arguments as `sign`."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp_s),
        "webhook-signature": " ".join(sign(secret, message_id, timestamp_s, body) for secret in secrets),
    }


def parse_headers(raw: Sequence[tuple[bytes | str, bytes | str]]) -> SecurityHeaders:
    """Take the security headers out of a request.

    Args:
        raw: every header as received, names in any case, repeats kept.

    Raises:
        MalformedHeaders: with the reason `missing_…`, `repeated_…` or `malformed_…` and `webhook_id`,
            `webhook_timestamp` or `webhook_signature`.
    """
    names = [name.lower() if type(name) is bytes else _bytes(name).lower() for name, _ in raw]
    message_id = _one(b"webhook-id", names, raw)
    timestamp = _one(b"webhook-timestamp", names, raw)
    signature = _one(b"webhook-signature", names, raw)
    try:
        canonical_id = ids.parse(message_id.decode("latin-1"))
    except ids.MalformedId:
        raise _malformed("webhook_id", repeated=b"," in message_id) from None
    if _TIMESTAMP.fullmatch(timestamp) is None:
        raise _malformed("webhook_timestamp", repeated=b"," in timestamp)
    if not signature.strip(b" \t") or len(signature) > MAX_SIGNATURE_HEADER:
        raise _malformed("webhook_signature")
    return SecurityHeaders(
        message_id=canonical_id,
        timestamp=int(timestamp),
        signatures=tuple(_TOKEN.findall(signature)),
        prefix=b"%b.%b." % (message_id, timestamp),
    )


def verify(
    keys: Mapping[K, SigningSecret], headers: SecurityHeaders, body: bytes, now_s: float
) -> Verified[K] | Refused:
    """Say whether one of the secrets signed this delivery, and within the last or next 300 seconds.

    Every secret is tried whatever the others gave, and without any a stand-in is, so that an unknown instance
    takes the time of a known one.

    Args:
        keys: the secrets that may have signed it, each under the caller's name for it.
        headers: from `parse_headers`.
        body: the exact bytes received.
        now_s: this host's wall clock in Unix seconds.

    Returns:
        `Verified` with the name of the secret; else `Refused`, where `timestamp` means that the signature
        was right.
    """
    signer: Verified[K] | None = None
    for key, secret in keys.items():
        if _signed(secret, headers, body) and signer is None:
            signer = Verified(key)
    if not keys:
        _signed(_STAND_IN, headers, body)
    if signer is None:
        return Refused("signature")
    return signer if fresh(headers.timestamp, now_s) else Refused("timestamp")


def fresh(timestamp_s: int, now_s: float) -> bool:
    """Say whether a timestamp is within the last or next 300 seconds (AAP, webhooks); both in Unix seconds."""
    return abs(now_s - timestamp_s) <= TOLERANCE_S


_SECRET: Final = re.compile(r"whsec_[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=")
_PUBLISHED: Final = bytes(range(32))
_STAND_IN: Final = SigningSecret.generate()
_TIMESTAMP: Final = re.compile(TIMESTAMP_PATTERN.encode())
_TOKEN: Final = re.compile(rb"(?<![^ ])v1,([A-Za-z0-9+/]{43}=)(?![^ ])")


def _signed(secret: SigningSecret, headers: SecurityHeaders, body: bytes) -> bool:
    expected = secret.signature(headers.prefix, body)
    right = False
    for candidate in headers.signatures:
        right |= hmac.compare_digest(expected, candidate)
    return right


def _bytes(text: bytes | str) -> bytes:
    return text if isinstance(text, bytes) else text.encode(errors="replace")


def _one(name: bytes, names: list[bytes], raw: Sequence[tuple[bytes | str, bytes | str]]) -> bytes:
    count = names.count(name)
    if count == 1:
        return _bytes(raw[names.index(name)][1])
    problem = "repeated" if count else "missing"
    header = name.decode()
    raise MalformedHeaders(f"The header {header} is {problem}.", reason=f"{problem}_{header.replace('-', '_')}")


def _malformed(header: str, *, repeated: bool = False) -> MalformedHeaders:
    problem = "repeated" if repeated else "malformed"
    return MalformedHeaders(f"The header {header.replace('_', '-')} is {problem}.", reason=f"{problem}_{header}")
