"""Parking: an instance whose credential its provider refused is left alone until it has another one."""

from wakegate_schema.records import Instance
from wakegate_schema.store import Store
from wakegate_worker.decisions import CredentialRefused
from wakegate_worker.log import log


async def park(store: Store, instance: Instance, error: CredentialRefused) -> bool:
    """Stop using the credential that was just refused.

    Args:
        store: the store.
        instance: as it was read before the credential was used.
        error: the refusal.

    Returns:
        False when another one was stored meanwhile, or it was sealed anew: try again with what there is now.
    """
    seen = instance.sealed_credential
    if seen is None:
        return True
    if not await store.park_instance(instance.provider, instance.instance_id, error.reason, seen):
        return False
    log.error(
        "parked until `wakegate instance credential` stores a new credential",
        action="park",
        instance=instance.name,
        reason=error.reason,
    )
    return True
