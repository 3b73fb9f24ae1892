"""Instances, and the registrations under which their providers may call."""

from dataclasses import dataclass, field
from typing import Literal

Delivery = Literal["webhook", "none"]
Identity = tuple[str, str]
"""What an instance is known by everywhere: its provider's base URL, and its id there."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A receiving endpoint that a provider may call, and the sealed secret it signs with."""

    registration_id: str
    provider: str
    """Canonical base URL of the provider."""
    name: str
    state: Literal["expected", "verified", "superseded", "retired"]
    sealed_secret: bytes = field(repr=False)
    url: str | None
    """Where the provider delivers; None when the registration was made elsewhere and imported."""
    idempotency_key: str | None
    """Of the creation at the provider, saved before the first attempt, so that a crash repeats the same one."""
    instance_id: str | None
    """The bound instance; in state `expected`, the only instance that may bind (rotation), or None for any."""
    created_at: int
    expected_until: int
    verified_at: int | None = None
    retired_at: int | None = None
    superseded_until: int | None = None
    """Until when what it signs is still taken: of a superseded one the end of the overlap, of a retired one whose
    instance lives on the moment of its retirement."""
    replacing: bool = False
    """Whether the rotation that made it is unfinished: it is to replace what is in force, and is not in force yet."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """A correctly signed `webhook.verification` message, asking to bind an instance to a registration."""

    registration_id: str
    instance_id: str
    at: int


@dataclass(frozen=True, slots=True)
class Binding:
    """The store's answer to a challenge. `refusal` is None when the instance is bound, else the machine reason."""

    refusal: (
        Literal[
            "unknown_registration",
            "registration_retired",
            "registration_superseded",
            "registration_expired",
            "bound_to_other_instance",
            "instance_bound_elsewhere",
        ]
        | None
    )


@dataclass(frozen=True, slots=True)
class Instance:
    """An identity at a provider, under which calls are submitted."""

    provider: str
    instance_id: str
    name: str
    state: Literal["active", "parked", "retired"]
    state_reason: str | None
    delivery: Delivery
    sealed_credential: bytes | None = field(repr=False)
    """Sealed with the worker's key together with the provider's base URL and the instance id; None once retired."""
    credential_expires_at: int | None
    created_at: int
    retired_at: int | None = None

    @property
    def identity(self) -> Identity:
        """Its provider and its id."""
        return self.provider, self.instance_id
