"""Records of every kind, written past the store, in the same words for SQLite and for PostgreSQL."""

from collections.abc import Mapping

from support.raw import Raw
from wakegate_schema.states import State

_PLAIN: Mapping[str, Mapping[str, str]] = {
    "registration": {
        "registration_id": "'new'", "provider": "'p'", "name": "'new'", "state": "'expected'",
        "sealed_secret": "CAST('s' AS BLOB)", "created_at": "1", "expected_until": "9",
    },
    "instance": {
        "provider": "'p'", "instance_id": "'new'", "name": "'new'", "state": "'active'", "delivery": "'none'",
        "sealed_credential": "CAST('c' AS BLOB)", "created_at": "1",
    },
    "notification": {
        "provider": "'p'", "instance_id": "'i'", "event_id": "'new'", "request_id": "'r'",
        "registration_id": "'verified'", "state": "'received'", "created_at": "1", "received_at": "1",
        "keep_until": "9", "body": "CAST('{}' AS BLOB)",
    },
    "anomaly": {
        "kind": "'k'", "provider": "'p'", "instance_id": "'i'", "subject_id": "'s'", "detail": "'d'", "first_at": "1",
        "last_at": "1",
    },
    "execution": {
        "execution_id": "'new'", "idempotency_key": "'new'", "provider": "'p'", "instance_id": "'i'",
        "tool": "'issue_refund'", "arguments": "CAST('{}' AS BLOB)", "timeout": "'30m'",
        "digest": "CAST('01234567890123456789012345678901' AS BLOB)", "runs": "'worker'", "wake": "'none'",
        "state": "'saved'", "actor": "'harness'", "due_at": "100", "created_at": "100", "changed_at": "100",
    },
    "call_group": {
        "provider": "'p'", "instance_id": "'i'", "group": "'new'", "wake": "'w'", "created_at": "1",
    },
    "wake": {
        "wake_id": "'new'", "execution_id": "'refused'", "number": "9", "target": "'w'", "due_at": "1",
        "created_at": "1", "to_state": "'refused'",
    },
    "resolution": {
        "epoch": "1", "provider": "'p'", "instance_id": "'i'", "execution_id": "'refused'", "transition_number": "2",
        "to_state": "'refused'", "at": "1",
    },
    "transition": {
        "execution_id": "'refused'", "number": "9", "to_state": "'refused'", "actor": "'a'", "at": "1",
    },
    "consuming_provider": {"provider": "'p'", "since": "1"},
    "adoption": {
        "provider": "'p'", "instance_id": "'i'", "request_id": "'new'", "due_at": "1", "created_at": "1",
    },
}  # fmt: skip
"""What a new row has when nothing else is said: table → column → SQL."""

_WAY: Mapping[str, tuple[str, str]] = {
    "submitting": ("saved", ""),
    "waiting": ("submitting", "request_id = execution_id || '-r', request_created_at = 1, deadline_at = 900"),
    "permitted": ("waiting", "decided_at = 200, expires_at = 800, due_at = NULL"),
    "started": ("permitted", "started_at = 300, attempt_number = lease_number, lease_until = 400, claim_id = 'c'"),
    "succeeded": ("started", "finished_at = 500"),
    "failed": ("started", "finished_at = 500"),
    "in_doubt": ("started", ""),
    "denied": ("waiting", "due_at = NULL, finished_at = 500"),
    "expired": ("waiting", "due_at = NULL, finished_at = 500"),
    "cancelled": ("waiting", "due_at = NULL, finished_at = 500"),
    "lapsed": ("permitted", "finished_at = 500"),
    "refused": ("saved", "due_at = NULL, finished_at = 500"),
    "unobtained": ("saved", "due_at = NULL, finished_at = 500"),
    "abandoned": ("submitting", "due_at = NULL, finished_at = 500"),
}
"""How a call comes to a state: state → from where, and what is set with it."""

OTHERS = (
    "INSERT INTO epoch (number, reason, actor, at) VALUES (2, 'restored', 'Ada', 5)",
    "INSERT INTO clock_mark (host, highest_at) VALUES ('h', 9)",
    "INSERT INTO clock_reset (host, from_at, to_at, actor) VALUES ('h', 9, 5, 'Ada')",
    "INSERT INTO migration (number, name, applied_at, oldest) VALUES (1, 'one', 5, 1)",
)


def new(table: str, **changes: str) -> str:
    """Return the statement that adds a row, with some columns' SQL other than plain."""
    columns = {**_PLAIN[table], **changes}
    names = ", ".join(f'"{column}"' for column in columns)
    return f"INSERT INTO {table} ({names}) VALUES ({', '.join(columns.values())})"


def call(name: str, **changes: str) -> str:
    """Return the statement that saves a call under a name: its id, and its key."""
    return new("execution", **{"execution_id": f"'{name}'", "idempotency_key": f"'{name}'", **changes})


def change(name: str, sets: str) -> str:
    """Return the statement that changes a call."""
    return f"UPDATE execution SET {sets} WHERE execution_id = '{name}'"


def taken_to(state: str, name: str, **changes: str) -> list[str]:
    """Return the statements that save a call and bring it to a state."""
    if state == "saved":
        return [call(name, **changes)]
    before, sets = _WAY[state]
    return [*taken_to(before, name, **changes), change(name, f"state = '{state}'{', ' + sets if sets else ''}")]


def fill(raw: Raw) -> None:
    """Put records of every kind into an empty store, among them a call in each state, named after it."""
    for statement in (
        *OTHERS,
        new("registration", registration_id="'expected'", name="'n'"),
        *(
            new(
                "registration", registration_id=f"'{name}'", name="'n'", state=f"'{state}'", instance_id="'i'",
                verified_at="2", superseded_until=until, replacing=replacing,
            )
            for name, state, until, replacing in (
                ("verified", "verified", "NULL", "0"),
                ("superseded", "superseded", "50", "0"),
                ("replacing", "verified", "NULL", "1"),
            )
        ),
        new("instance", instance_id="'i'", name="'n'"),
        new(
            "instance", instance_id="'gone'", name="'n'", state="'retired'", retired_at="2", sealed_credential="NULL"
        ),
        new("notification", event_id="'e'"),
        new("anomaly"),
        new("consuming_provider"),
        new(
            "adoption", request_id="'running'", framework="'langgraph'", thread="'running'", run_began_at="1",
            run_until="5",
        ),
        *(statement for state in State for statement in taken_to(state, state)),
        *taken_to("refused", "of-open", group="'open'", wake="'w'"),
        *taken_to("refused", "of-sealed", group="'sealed'", wake="'w'"),
        "UPDATE call_group SET sealed_at = 700 WHERE \"group\" = 'sealed'",
        *taken_to("refused", "told", wake="'w'"),
    ):  # fmt: skip
        raw.execute(statement)
