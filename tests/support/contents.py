"""What is in a store, read past it: every row of every table, whatever database it is in."""

from contextlib import closing
from typing import Any

from support.raw import open_raw
from support.raw_records import fill, new

KEYS = {
    "probe": "id",
    "clock_mark": "host",
    "clock_reset": "number",
    "epoch": "number",
    "numbering": "id",
    "registration": "registration_id",
    "instance": "provider, instance_id",
    "notification": "number",
    "anomaly": "anomaly_id",
    "call_group": "number",
    "execution": "number",
    "transition": "execution_id, number",
    "wake": "rowid",
    "resolution": "number",
    "consuming_provider": "provider",
    "adoption": "number",
    "adoption_mark": "id",
}
"""The tables that a copy takes, and by what each is ordered."""


def contents(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of each table."""
    with closing(open_raw(url)) as raw:
        return {table: raw.rows(f"SELECT {_columns(url, table)} FROM {table} ORDER BY {KEYS[table]}") for table in KEYS}


def _columns(url: str, table: str) -> str:
    """What SQLite numbers by itself, PostgreSQL has as a column."""
    if table != "wake" or url.startswith("sqlite:"):
        return "*" if table != "wake" else "rowid, *"
    return (
        "rowid, wake_id, execution_id, number, target, state, tries, problem, due_at, created_at, delivered_at,"
        " to_state, group_number, owed_since"
    )


def furnish(url: str) -> None:
    """Put records of every kind, and a call in each state, into an empty store."""
    with closing(open_raw(url)) as raw:
        raw.execute("DELETE FROM migration WHERE number = 1")  # `fill` adds that row
        fill(raw)
        bytes_of_all_kinds = "x'00ff275c0a'" if url.startswith("sqlite:") else r"'\x00ff275c0a'::bytea"
        for name in ("'bytes'", "'pruned'"):
            raw.execute(new("notification", event_id=name, body=bytes_of_all_kinds))
        raw.execute("DELETE FROM notification WHERE event_id = 'pruned'")  # the last of all numbers that were given
