"""Instances, where their notifications go, and the credential of each (AAP, instances)."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from wakegate_schema.wire.base import WireModel
from wakegate_schema.wire.fields import NonEmpty, Optional, Secret, Timestamp, Uuid, WebhookUrl, fault


class Delivery(WireModel):
    """Where an instance's notifications go and what signs them, as its provisioner submits it."""

    type: Literal["webhook"]
    url: WebhookUrl
    registration_id: Uuid
    signing_secret: Secret


class DeliveryView(WireModel):
    """The same as a provider shows it: without the secret."""

    type: Literal["webhook"]
    url: WebhookUrl
    registration_id: Uuid


class NewInstance(WireModel):
    """The body that creates an instance."""

    instance_name: Optional[str] = None
    delivery: Optional[Delivery] = None


class InstanceUpdate(WireModel):
    """The body that changes an instance: a name, a delivery, or both."""

    nullable: ClassVar[frozenset[str]] = frozenset({"delivery"})

    instance_name: Optional[str] = None
    delivery: Delivery | None = None
    """None both when absent (the delivery stays) and when null (it is removed): ask `changes_delivery`."""

    @property
    def changes_delivery(self) -> bool:
        """Whether `delivery` was given: an object replaces what is there, null removes it."""
        return "delivery" in self.model_fields_set

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.instance_name is None and not self.changes_delivery:
            raise fault("missing_field", "instance_name")
        return self


class Instance(WireModel):
    """An instance as its provider shows it."""

    id: Uuid
    name: str
    delivery: Optional[DeliveryView] = None


class Credential(WireModel):
    """The bearer token of one instance."""

    token: NonEmpty = Field(repr=False)
    expires_at: Optional[Timestamp] = None


class ProvisionedInstance(WireModel):
    """The answer to a creation."""

    instance: Instance
    credential: Credential
