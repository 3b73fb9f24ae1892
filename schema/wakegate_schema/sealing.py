"""Sealing: secrets and credentials at rest, each bound to what it was sealed for."""

import hmac
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from wakegate_schema import ids
from wakegate_schema.errors import WakegateError
from wakegate_schema.signing import SigningSecret
from wakegate_schema.urls import base_url

_B64TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_TOKEN_LIMIT = 4096
_CREDENTIAL_MEMBERS = frozenset({"provider", "instance_id", "token"})
_LENGTH_BYTES = 4


class CannotUnseal(WakegateError):
    """A sealed value does not open under this key; check that the key file is the one it was sealed with."""

    reason = "cannot_unseal"


class MalformedCredential(WakegateError):
    """A credential is not a bearer token for one instance of one provider."""

    reason = "malformed_credential"


class BearerToken:
    """A bearer token as RFC 6750 writes it (`b64token`); it never shows itself.

    Such a token cannot hold a line ending, a space or anything else that would change a header.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Check and keep the token.

        Args:
            text: the token alone, without `Bearer` and without a line ending; at most 4096 characters.

        Raises:
            MalformedCredential: it is not a b64token. The message does not show it.
        """
        if len(text) > _TOKEN_LIMIT or _B64TOKEN.fullmatch(text) is None:
            raise MalformedCredential(
                f"the bearer token is not one: 1 to {_TOKEN_LIMIT} letters, digits and -._~+/, then any ="
            )
        self._text = text

    def reveal(self) -> str:
        """Return the token itself, for the Authorization header and for sealing only."""
        return self._text

    def __repr__(self) -> str:
        return "BearerToken(hidden)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BearerToken):
            return NotImplemented
        return hmac.compare_digest(self._text, other._text)

    def __hash__(self) -> int:
        return hash((BearerToken, self._text))

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a bearer token is not pickled; seal it")


@dataclass(frozen=True, slots=True)
class Credential:
    """An instance credential with the only place it may be sent to (AAP, identity)."""

    provider: str
    """The provider's base URL, canonical."""
    instance_id: str
    token: BearerToken


class Sealer:
    """Seals and unseals under one key file's keys, the newest first; each value is bound to its purpose."""

    __slots__ = ("_fernet", "_newest", "source")

    def __init__(self, fernets: Sequence[Fernet], *, source: str = "the key file") -> None:
        """Take the keys.

        Args:
            fernets: at least one, the newest first: it seals, all of them unseal.
            source: what to call the keys in an error: the file's path.
        """
        self._take(fernets)
        self.source = source

    def seal(self, purpose: str, data: bytes) -> bytes:
        """Return `data` sealed for `purpose`; only the same purpose unseals it."""
        return self._fernet.encrypt(_header(purpose) + data)

    def unseal(self, purpose: str, sealed: bytes) -> bytes:
        """Return what was sealed for `purpose`.

        Raises:
            CannotUnseal: sealed under another key, altered (reason `cannot_unseal`), or sealed for another
                purpose (reason `sealed_for_another_purpose`). The message shows the key file, never the data.
        """
        opened = self._open(sealed)
        if opened is None and self.renew():
            opened = self._open(sealed)
        if opened is None:
            raise self._closed()
        header = _header(purpose)
        if not opened.startswith(header):
            raise CannotUnseal(
                f"a sealed value opens under the keys in {self.source} but was sealed for something else;"
                " the stored row was altered or moved",
                reason="sealed_for_another_purpose",
            )
        return opened[len(header) :]

    def opens(self, sealed: bytes) -> bool:
        """Say whether one of the keys opens a value, whatever it was sealed for."""
        return self._open(sealed) is not None

    def is_newest(self, sealed: bytes) -> bool:
        """Say whether a value is sealed under the newest key."""
        try:
            self._newest.decrypt(sealed)
        except (InvalidToken, TypeError):
            return False
        return True

    def reseal(self, sealed: bytes) -> bytes:
        """Return a value sealed under the newest key, for the same purpose as before.

        Raises:
            CannotUnseal: no key opens it.
        """
        try:
            return self._fernet.rotate(sealed)
        except (InvalidToken, TypeError):
            raise self._closed() from None

    def require_one(self, values: Sequence[bytes]) -> None:
        """Refuse keys that open none of the values there are: they are another's.

        Raises:
            CannotUnseal: not one opens; the message names the key file.
        """
        if values and not any(map(self.opens, values)):
            raise self._closed()

    def renew(self) -> bool:
        """Take the keys again from where they come from, if they are others now; say whether they were taken."""
        return False

    def _take(self, fernets: Sequence[Fernet]) -> None:
        self._fernet, self._newest = MultiFernet(fernets), fernets[0]

    def _open(self, sealed: bytes) -> bytes | None:
        try:
            return self._fernet.decrypt(sealed)
        except (InvalidToken, TypeError):
            return None

    def _closed(self) -> CannotUnseal:
        return CannotUnseal(
            f"a sealed value does not open under the keys in {self.source}: it was sealed with"
            " another key or altered; check that this is the right key file and still holds the old key"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(source={self.source!r})"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a sealer holds keys and is not pickled; load it again from its file")


def seal_signing_secret(sealer: Sealer, *, provider: str, registration_id: str, secret: SigningSecret) -> bytes:
    """Return the secret sealed for this provider (base URL) and registration under the receiver's key."""
    _check_identity(provider, registration_id)
    return sealer.seal(_secret_purpose(provider, registration_id), secret.reveal().encode("ascii"))


def unseal_signing_secret(sealer: Sealer, sealed: bytes, *, provider: str, registration_id: str) -> SigningSecret:
    """Return the secret sealed for exactly this provider and registration.

    Raises:
        CannotUnseal: another key, or sealed for another provider or registration.
    """
    text = sealer.unseal(_secret_purpose(provider, registration_id), sealed)
    return SigningSecret.parse(text.decode("ascii"))


def seal_credential(sealer: Sealer, *, provider: str, instance_id: str, token: BearerToken | str) -> bytes:
    """Return the token sealed together with the provider's base URL and the instance id.

    Raises:
        MalformedCredential: the URL or the id is not canonical, or the token is no bearer token.
    """
    _check_identity(provider, instance_id)
    bearer = token if isinstance(token, BearerToken) else BearerToken(token)
    members = {"provider": provider, "instance_id": instance_id, "token": bearer.reveal()}
    return sealer.seal(_CREDENTIAL_PURPOSE, json.dumps(members).encode("ascii"))


def unseal_credential(sealer: Sealer, sealed: bytes, *, provider: str, instance_id: str) -> Credential:
    """Return the credential as it was sealed, provider included: the caller sends the token only there.

    Args:
        sealer: the worker's key.
        sealed: what `seal_credential` returned.
        provider: the base URL that the stored row claims.
        instance_id: the instance that the stored row claims.

    Raises:
        CannotUnseal: another key, or the row claims another provider or instance than was sealed (reasons
            `credential_of_another_provider`, `credential_of_another_instance`).
    """
    members = _members(sealer.unseal(_CREDENTIAL_PURPOSE, sealed), sealer.source)
    for member, claimed in (("provider", provider), ("instance_id", instance_id)):
        if members[member] != claimed:
            noun = member.removesuffix("_id")
            raise CannotUnseal(
                f"the credential of instance {instance_id} was sealed for another {noun} than its row says;"
                " the stored row was altered; give the instance its credential again",
                reason=f"credential_of_another_{noun}",
            )
    return Credential(provider=provider, instance_id=instance_id, token=BearerToken(members["token"]))


_CREDENTIAL_PURPOSE = "instance-credential"


def _members(data: bytes, source: str) -> dict[str, str]:
    try:
        members = json.loads(data)
    except ValueError:
        members = None
    if (
        not isinstance(members, dict)
        or frozenset(members) != _CREDENTIAL_MEMBERS
        or not all(isinstance(value, str) for value in members.values())
    ):
        raise CannotUnseal(
            f"a credential sealed under the keys in {source} has another form; store the credential again",
            reason="sealed_malformed",
        )
    return members


def _secret_purpose(provider: str, registration_id: str) -> str:
    return json.dumps(["signing-secret", provider, registration_id])


def _header(purpose: str) -> bytes:
    name = purpose.encode("utf-8")
    return len(name).to_bytes(_LENGTH_BYTES, "big") + name


def _check_identity(provider: str, identifier: str) -> None:
    if base_url(provider) != provider:
        raise MalformedCredential("the provider's base URL is not in its canonical form; pass what base_url returns")
    if ids.parse(identifier) != identifier:
        raise MalformedCredential("the instance or registration id is not in lower case; pass what ids.parse returns")
