"""Groups: made by their first call, sealed by the harness, told of by one wake (DESIGN, "Groups")."""

from wakegate_schema.records import Execution, Group, Suspension
from wakegate_schema.store.errors import NotAllowed, NotFound
from wakegate_schema.store.transaction import Transaction, each
from wakegate_schema.store.verbs import mapping
from wakegate_schema.store.verbs.repeats import confirm


def check_fits(tx: Transaction, suspension: Suspension) -> None:
    """Say why a new call cannot join its group, if it cannot; the database would refuse it with fewer words."""
    if suspension.group is None:
        return
    key = {"provider": suspension.provider, "instance_id": suspension.instance_id, "group": suspension.group}
    found = tx.first("group_named", key)
    if found is None:
        return
    if found["sealed_at"] is not None:
        raise NotAllowed(
            f"group {suspension.group} is sealed and takes no further call; choose a new group",
            reason="group_sealed",
        )
    if found["wake"] != suspension.wake:
        raise NotAllowed(
            f"group {suspension.group} wakes {found['wake']}, and all of its calls do; choose that target or a new"
            " group",
            reason="group_wakes_another_target",
        )


@each
def seal(tx: Transaction, item: tuple[str, str, str, int]) -> None:
    """Say that a group is complete; its wake is owed now if nothing of it is to come any more."""
    provider, instance_id, group, at = item
    key = {"provider": provider, "instance_id": instance_id, "group": group}
    found = tx.first("group_named", key)
    if found is None:
        raise NotFound(
            f"there is no group {group} at this instance; a group begins with the first call that is saved with it"
        )
    if tx.change("group_seal", {"number": found["number"], "at": at}) == 0:
        confirm(tx)


def calls(
    tx: Transaction, provider: str, instance_id: str, group: str, after: int, limit: int
) -> list[tuple[int, Execution]]:
    """Return a page of a group's executions, the first saved first, with row numbers."""
    params = {"provider": provider, "instance_id": instance_id, "group": group, "after": after, "limit": limit}
    return [(row["number"], mapping.execution(row)) for row in tx.all("group_calls", params)]


def told(tx: Transaction, group_number: int, after: int, limit: int) -> list[tuple[int, Execution, str]]:
    """Return a page of what a group's wake tells of, with row numbers and the ids of the resolutions."""
    rows = tx.all("group_told", {"group_number": group_number, "after": after, "limit": limit})
    return [(row["number"], mapping.execution(row), f"{row['execution_id']}_{row['last_change']}") for row in rows]


def name(tx: Transaction, group_number: int) -> str:
    """Return a group's name. Raises `NotFound`."""
    row = tx.first("group_name", {"number": group_number})
    if row is None:
        raise NotFound(f"there is no group {group_number}")
    return str(row["name"])


def open_ones(tx: Transaction, before: int | None, limit: int) -> list[tuple[int, Group]]:
    """Return a page of the groups that are not sealed, the latest first."""
    rows = tx.all("groups_open_latest", {"before": mapping.LAST if before is None else before, "limit": limit})
    return [(row["number"], mapping.record(Group, row)) for row in rows]


def stuck(tx: Transaction, limit: int = 1000) -> int:
    """Count the groups whose calls are all resolved and that nobody is told of, because they are not sealed."""
    (row,) = tx.all("groups_stuck", {"limit": limit})
    return int(row["count"])
