"""Sources: who decides for an instance, reached with its credential and only where that was sealed for."""

from collections.abc import Callable

from wakegate_schema.records import Instance
from wakegate_schema.sealing import CannotUnseal, Credential, Sealer, unseal_credential
from wakegate_worker.decisions import DecisionError, DecisionSource

INSTANCE_PARKED = "instance_parked"
"""The problem of what waits for its instance to get a new credential."""
INSTANCE_RETIRED = "instance_retired"
"""The problem of what met an instance that was just retired."""


class NoCredential(DecisionError):
    """The instance has no credential that could be used."""

    reason = "no_credential"


class Sources:
    """Makes a decision source per instance and keeps it while its sealed credential is the same."""

    def __init__(self, sealer: Sealer, connect: Callable[[Credential], DecisionSource]) -> None:
        """Take the worker's key, and what speaks to a provider with a credential."""
        self._sealer = sealer
        self._connect = connect
        self._known: dict[tuple[str, str], tuple[bytes, DecisionSource]] = {}

    def of(self, instance: Instance) -> DecisionSource:
        """Return the source that decides for the instance.

        Raises:
            NoCredential: `instance_parked`, `instance_retired`, or why the credential does not open.
        """
        sealed = instance.sealed_credential
        if instance.state != "active" or sealed is None:
            reason = INSTANCE_PARKED if instance.state == "parked" else INSTANCE_RETIRED
            raise NoCredential(f"instance {instance.name} is {instance.state}", reason=reason)
        key = instance.identity
        known = self._known.get(key)
        if known is None or known[0] != sealed:
            known = self._known[key] = (sealed, self._open(instance, sealed))
        return known[1]

    def _open(self, instance: Instance, sealed: bytes) -> DecisionSource:
        try:
            credential = unseal_credential(
                self._sealer, sealed, provider=instance.provider, instance_id=instance.instance_id
            )
        except CannotUnseal as error:
            raise NoCredential(str(error), reason=error.reason) from None
        return self._connect(credential)
