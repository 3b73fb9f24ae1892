"""Whether a store can be worked on as this login finds it: all of it is seen, in one place, and every text fits."""

from wakegate_schema.store.errors import StoreDenied, StoreError, StoreMisplaced
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.transaction import Transaction


def refuse_unfit(transaction: Transaction, location: StoreLocation) -> None:
    """Raise `StoreMisplaced` or `StoreDenied` unless a store can be worked on as it is found."""
    if (row := transaction.first("store_unfit")) is not None:
        raise unfit(location, row["what"], row["name"])


def unfit(location: StoreLocation, what: str, name: str) -> StoreError:
    """Return the refusal for a row of `store_unfit`."""
    if what == "encoding":
        return StoreMisplaced(
            f"the database at {location.url} is in {name}, which cannot hold every text; make one with ENCODING 'UTF8'"
            " TEMPLATE template0, and name that"
        )
    if what == "schema":
        return StoreMisplaced(
            f"the store at {location.url} is in the schema {name}, and another one stands before it in the search path;"
            f" set the role's search_path to {name} alone (docs/postgresql.md)"
        )
    return StoreDenied(
        f"row level security hides rows of the table {name} in the store at {location.url} from this role; let the"
        f" owner switch it off: ALTER TABLE {name} DISABLE ROW LEVEL SECURITY"
    )
