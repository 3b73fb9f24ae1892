"""What is on record when all is over: read from the two databases and the journals, with no code of the program."""

import hashlib
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soak.calls import BEHAVIOURS, IN_WORKER, Behaviour, Mode, parts
from soak.clocks import SECOND, Readings
from soak.effects import Effect, Pause, effects_by_call, fenced_by, pauses_in
from soak.journal import Journal, real_time
from wakegate_schema.downstream import downstream_key

CANCEL_LEASE = 200 * SECOND
"""How far a cancel may be put off, µs: two minutes by a dead worker, whose clock was fast perhaps."""
UNRESOLVED = ("saved", "submitting", "waiting", "permitted", "started")
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One call, and everything that anybody says of it. Times are µs."""

    key: str
    tool: str
    mode: Mode
    saved: bool
    """Whether a harness was told that it is saved."""
    given_up: bool
    """Whether a harness wanted to give it up."""
    execution: Row | None
    """The store's row."""
    transitions: tuple[Row, ...]
    request: Row | None
    """The provider's own row."""
    effects: tuple[Effect, ...]
    void: bool
    """Whether its tool has spoken for its downstream key, so that its probe cannot tell any more."""

    @property
    def fate(self) -> str:
        """What the provider's policy does with it."""
        return parts(self.tool)[0]

    @property
    def behaviour(self) -> Behaviour:
        """What it does once it runs."""
        return BEHAVIOURS[self.mode][parts(self.tool)[1]]


@dataclass(frozen=True, slots=True)
class Records:
    """Everything that is counted."""

    cases: tuple[Case, ...]
    strangers: tuple[str, ...]
    """Executions, requests and effects that belong to no call that a harness was about to save."""
    integrity: tuple[str, ...]
    """What SQLite says of the store; only `ok` is good."""
    notifications: Mapping[str, tuple[str, str]]
    """By event id: the body's SHA-256, and the state."""
    acknowledged: Mapping[str, str]
    """By event id: the body's SHA-256, of what the load got a 2xx for."""
    delivered: tuple[str, ...]
    """Event ids that the provider got a 2xx for."""
    unhandled: tuple[str, ...]
    """Event ids of notifications that wait though their execution is known."""
    wakes: tuple[Row, ...]
    """The store's rows."""
    told: Mapping[str, tuple[tuple[str, str], ...]]
    """By wake id: type and state of each arrival at the listener."""
    bad_wakes: int
    events: tuple[Row, ...]
    """The journal of what was done to the stage."""
    readings: Readings
    """What the host's clock showed."""

    @property
    def starts(self) -> tuple[int, ...]:
        """When calls have started, real times in µs; those not counted that were held up before their effect."""
        return tuple(one.at for case in self.cases for one in case.effects if not one.held_up)


def read(folder: Path, database: Path) -> Records:
    """Read everything, when nothing writes any more.

    Args:
        folder: the soak's.
        database: the store's file.
    """
    events = Journal(folder / "journal.jsonl").facts()
    wakes = Journal(folder / "wakes.jsonl").facts()
    told: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for fact in wakes:
        if fact["event"] == "wake":
            told[fact["id"]].append((fact["type"], fact["state"]))
    with _reading(database) as store, _reading(folder / "provider.db") as provider:
        cases, strangers = _cases(folder, store, provider, pauses_in(events))
        return Records(
            cases=cases,
            strangers=strangers,
            integrity=tuple(row[0] for row in store.execute("PRAGMA integrity_check"))
            + tuple(f"foreign key: {tuple(row)}" for row in store.execute("PRAGMA foreign_key_check")),
            notifications={
                row["event_id"]: (hashlib.sha256(row["body"]).hexdigest(), row["state"])
                for row in store.execute("SELECT event_id, body, state FROM notification")
            },
            acknowledged={fact["event_id"]: fact["body"] for fact in Journal(folder / "acknowledged.jsonl").facts()},
            delivered=tuple(row[0] for row in provider.execute("SELECT event_id FROM notifications WHERE made > 0")),
            unhandled=tuple(row[0] for row in store.execute(_UNHANDLED)),
            wakes=_rows(store, "SELECT * FROM wake"),
            told={wake_id: tuple(arrivals) for wake_id, arrivals in told.items()},
            bad_wakes=sum(fact["event"] == "bad_wake" for fact in wakes),
            events=tuple(events),
            readings=Readings(events, "host", real_time()),
        )


def unsettled(folder: Path, database: Path) -> list[str]:
    """Return what is still owed, a line for each kind; nothing once all has settled."""
    now = real_time()
    probed = [name for name, behaviour in IN_WORKER.items() if behaviour.probed]
    with _reading(database) as store, _reading(folder / "provider.db") as provider:
        counts = {
            **{row["state"]: row["n"] for row in store.execute(_BY_STATE) if row["state"] in UNRESOLVED},
            "wakes owed": store.execute("SELECT COUNT(*) FROM wake WHERE state = 'owed'").fetchone()[0],
            "cancels overdue": store.execute(_CANCELS, {"now": now, "latest": now + CANCEL_LEASE}).fetchone()[0],
            "to be probed": sum(
                parts(tool)[1] in probed and not _is_void(folder, execution_id)
                for execution_id, tool in store.execute(
                    "SELECT execution_id, tool FROM execution WHERE state = 'in_doubt'"
                )
            ),
            "notifications to be handled": len(store.execute(_UNHANDLED).fetchall()),
            "requests pending": provider.execute("SELECT COUNT(*) FROM requests WHERE status = 'pending'").fetchone()[
                0
            ],
        }
    unsaved = len(_unsaved(folder))
    if unsaved:
        counts["calls to be saved"] = unsaved
    return [f"{count} {what}" for what, count in counts.items() if count]


def _is_void(folder: Path, execution_id: str) -> bool:
    """Say whether the tool took its key downstream and did not come to its effect."""
    return bool(execution_id) and fenced_by(folder, downstream_key(execution_id)) == "tool"


def _unsaved(folder: Path) -> set[str]:
    """Return the keys of calls that a harness is still to save, or to see to its end."""
    begun, ended = set(), set()
    for book in folder.glob("harness-*.jsonl"):
        for fact in Journal(book).facts():
            if fact["event"] == "intent" and fact["mode"] != "hold":
                begun.add(fact["key"])
            elif fact["event"] == "ended":
                ended.add(fact["key"])
    return begun - ended


def _cases(
    folder: Path, store: sqlite3.Connection, provider: sqlite3.Connection, pauses: list[Pause]
) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    intents, saved, given_up = _books(folder)
    executions = {row["idempotency_key"]: row for row in _rows(store, "SELECT * FROM execution")}
    requests = {row["idempotency_key"]: row for row in _rows(provider, "SELECT * FROM requests")}
    transitions: defaultdict[str, list[Row]] = defaultdict(list)
    for row in _rows(store, "SELECT * FROM transition ORDER BY execution_id, number"):
        transitions[row["execution_id"]].append(row)
    effects = effects_by_call(folder, pauses)
    strangers = (executions.keys() | requests.keys() | effects.keys() | saved.keys()) - intents.keys()
    cases = []
    for key, intent in intents.items():
        execution = executions.get(key)
        execution_id = "" if execution is None else execution["execution_id"]
        cases.append(
            Case(
                key=key,
                tool=intent["tool"],
                mode=intent["mode"],
                saved=key in saved,
                given_up=key in given_up,
                execution=execution,
                transitions=tuple(transitions[execution_id]),
                request=requests.get(key),
                effects=tuple(effects.get(key, ())),
                void=_is_void(folder, execution_id),
            )
        )
    return tuple(cases), tuple(sorted(strangers))


def _books(folder: Path) -> tuple[dict[str, Row], dict[str, str], set[str]]:
    intents: dict[str, Row] = {}
    saved: dict[str, str] = {}
    given_up: set[str] = set()
    for book in sorted(folder.glob("harness-*.jsonl")):
        for fact in Journal(book).facts():
            if fact["event"] == "intent":
                intents[fact["key"]] = fact
            elif fact["event"] == "saved":
                saved[fact["key"]] = fact["execution_id"]
            elif fact["event"] == "abandoning":
                given_up.add(fact["key"])
    return intents, saved, given_up


@contextmanager
def _reading(database: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5.0)) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


def _rows(connection: sqlite3.Connection, query: str) -> tuple[Row, ...]:
    return tuple(dict(row) for row in connection.execute(query))


_BY_STATE = "SELECT state, COUNT(*) AS n FROM execution GROUP BY state"
_CANCELS = """\
SELECT COUNT(*) FROM execution
WHERE cancel_due_at IS NOT NULL AND (cancel_due_at <= :now OR cancel_due_at > :latest)
"""
_UNHANDLED = """\
SELECT event_id FROM notification JOIN execution USING (provider, instance_id, request_id)
WHERE notification.state = 'received'
"""
