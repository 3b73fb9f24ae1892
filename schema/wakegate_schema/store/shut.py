"""What shuts a store: it went elsewhere, or it is not whole yet. Asked of by whoever opens one, and whoever writes."""

from wakegate_schema.store.errors import StoreFilling, StoreMoved
from wakegate_schema.store.transaction import Transaction


def refuse_unfinished(tx: Transaction, where: str) -> None:
    """Raise `StoreFilling` for a store that is not whole yet; `where` is what to call it."""
    if (row := tx.first("filling")) is not None:
        raise unfinished(where, row["from"])


def refuse_moved(tx: Transaction, where: str) -> None:
    """Raise `StoreMoved` for a store that was copied elsewhere, for good; `where` is what to call it."""
    if (row := tx.first("moved_to")) is not None:
        raise moved(where, row["to"])


def refusal(what: str, where: str, name: str) -> StoreMoved | StoreFilling:
    """Return the refusal for a row of `store_shut`."""
    return moved(where, name) if what == "moved" else unfinished(where, name)


def unfinished(where: str, origin: str) -> StoreFilling:
    """Return the refusal of a store that is not whole yet."""
    return StoreFilling(
        f"{origin} is being copied into the store at {where}, or was, and that has not ended; if nothing does it now,"
        " run the same command again"
    )


def moved(where: str, to: str) -> StoreMoved:
    """Return the refusal of a store that was copied elsewhere."""
    return StoreMoved(f"the store at {where} was copied to {to} and closed; name that by WAKEGATE_DATABASE")
