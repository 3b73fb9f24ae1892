"""Deletion: an instance ends at its provider first, then here; repeated after a crash, it does what is left."""

from wakegate_console.provisioner import OTHERWISE, Call, ask
from wakegate_console.roster import Entry, retire
from wakegate_schema.sealing import BearerToken
from wakegate_schema.store import NotAllowed, Store


async def delete(store: Store, entry: Entry, token: BearerToken, actor: str, at: int) -> tuple[bool, int]:
    """Delete an instance at its provider, then retire it here in one commit.

    Args:
        store: open for writing.
        entry: the instance.
        token: the provisioner token for its provider.
        actor: who asked for it.
        at: µs since the epoch.

    Returns:
        Whether the provider still knew it, and how many executions were abandoned.

    Raises:
        NotAllowed: it has no id yet that could be deleted.
        CallFailed: the provider refused or did not answer; nothing was changed here.
    """
    if entry.instance_id is None:
        raise NotAllowed(
            f"no instance is known yet for {entry.name}; `wakegate instance retire` gives up its registration"
        )
    call = Call(
        provider=entry.provider,
        token=token,
        method="DELETE",
        path=f"/v1/instances/{entry.instance_id}",
        advice={OTHERWISE: "it does not delete this instance; nothing was changed here"},
    )
    answer = await ask(call, good=(204, 404))
    return answer.status == 204, await retire(store, entry, actor, at)
