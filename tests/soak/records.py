"""What is on record when all is over: read from the two databases and the journals, with no code of the program."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from soak.calls import BEHAVIOURS, IN_WORKER, Behaviour, Mode, parts
from soak.clocks import SECOND, Readings
from soak.effects import Effect, Pause, effects_by_call, fenced_by, pauses_in
from soak.journal import Journal, real_time
from soak.reading import Reading, Row, reading
from wakegate_schema.downstream import downstream_key

CANCEL_LEASE = 200 * SECOND
"""How far a cancel may be put off, µs: two minutes by a dead worker, whose clock was fast perhaps."""
UNRESOLVED = ("saved", "submitting", "waiting", "permitted", "started")


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
    """What the database says of the store; only `ok` is good."""
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
    told_of: Mapping[str, frozenset[int]]
    """By wake id: how many calls its arrivals told of."""
    bad_wakes: int
    groups: tuple[Row, ...]
    """The store's rows."""
    completed: frozenset[str]
    """The groups that a harness was told are sealed."""
    resolutions: tuple[str, ...]
    """The store's log of resolutions, in its order: of each, the id under which harnesses are told."""
    streams: Mapping[str, tuple[str, ...]]
    """What each harness was told of them by the stream, in the order in which it came."""
    events: tuple[Row, ...]
    """The journal of what was done to the stage."""
    readings: Readings
    """What the host's clock showed."""

    @property
    def starts(self) -> tuple[int, ...]:
        """When calls have started, real times in µs; those not counted that were held up before their effect."""
        return tuple(one.at for case in self.cases for one in case.effects if not one.held_up)


def read(folder: Path, url: str) -> Records:
    """Read everything, when nothing writes any more.

    Args:
        folder: the soak's.
        url: the store's.
    """
    events = Journal(folder / "journal.jsonl").facts()
    wakes = Journal(folder / "wakes.jsonl").facts()
    told: defaultdict[str, list[Row]] = defaultdict(list)
    for fact in wakes:
        if fact["event"] == "wake":
            told[fact["id"]].append(fact)
    with reading(url) as store, reading(f"sqlite:///{folder}/provider.db") as provider:
        cases, strangers = _cases(folder, store, provider, pauses_in(events))
        return Records(
            cases=cases,
            strangers=strangers,
            integrity=store.integrity(),
            notifications={
                row["event_id"]: (hashlib.sha256(row["body"]).hexdigest(), row["state"])
                for row in store.rows("SELECT event_id, body, state FROM notification")
            },
            acknowledged={fact["event_id"]: fact["body"] for fact in Journal(folder / "acknowledged.jsonl").facts()},
            delivered=_column(provider, "SELECT event_id AS value FROM notifications WHERE made > 0"),
            unhandled=_column(store, _UNHANDLED),
            wakes=store.rows("SELECT * FROM wake"),
            told={wake_id: tuple((one["type"], one["state"]) for one in each) for wake_id, each in told.items()},
            told_of={wake_id: frozenset(one["calls"] for one in each) for wake_id, each in told.items()},
            bad_wakes=sum(fact["event"] == "bad_wake" for fact in wakes),
            groups=store.rows("SELECT * FROM call_group"),
            completed=frozenset(_groups(folder)[1]),
            resolutions=_column(store, _RESOLUTIONS),
            streams=_streams(folder),
            events=tuple(events),
            readings=Readings(events, "host", real_time()),
        )


def unsettled(folder: Path, url: str) -> list[str]:
    """Return what is still owed, a line for each kind; nothing once all has settled.

    Raises:
        Unreadable: one of the databases cannot be read now.
    """
    with reading(url) as store, reading(f"sqlite:///{folder}/provider.db") as provider:
        counts = _owed(folder, store)
        counts["requests pending"] = _count(provider, "SELECT COUNT(*) AS value FROM requests WHERE status = 'pending'")
    counts["calls to be saved"] = len(_unsaved(folder))
    begun, sealed = _groups(folder)
    counts["groups to be sealed"] = len(begun - sealed)
    return [f"{count} {what}" for what, count in counts.items() if count]


def _owed(folder: Path, store: Reading) -> Counter[str]:
    """Return what the store still owes; what has a probe is in doubt no longer, unless it is void."""
    now = real_time()
    probed = [name for name, behaviour in IN_WORKER.items() if behaviour.probed]
    doubts = store.rows("SELECT execution_id, tool FROM execution WHERE state = 'in_doubt'")
    counts = Counter({row["state"]: row["n"] for row in store.rows(_BY_STATE) if row["state"] in UNRESOLVED})
    counts["wakes owed"] = _count(store, "SELECT COUNT(*) AS value FROM wake WHERE state = 'owed'")
    counts["cancels overdue"] = _count(store, _CANCELS.format(now=now, latest=now + CANCEL_LEASE))
    counts["to be probed"] = sum(
        parts(row["tool"])[1] in probed and not _is_void(folder, row["execution_id"]) for row in doubts
    )
    counts["notifications to be handled"] = len(store.rows(_UNHANDLED))
    told = _count(store, "SELECT COUNT(*) AS value FROM resolution")
    counts["resolutions to be streamed"] = sum(max(0, told - len(heard)) for heard in _streams(folder).values())
    return counts


def _is_void(folder: Path, execution_id: str) -> bool:
    """Say whether the tool took its key downstream and did not come to its effect."""
    return bool(execution_id) and fenced_by(folder, downstream_key(execution_id)) == "tool"


def _streams(folder: Path) -> dict[str, tuple[str, ...]]:
    return {
        file.stem.removeprefix("stream-"): tuple(fact["id"] for fact in Journal(file).facts())
        for file in folder.glob("stream-*.jsonl")
    }


def _groups(folder: Path) -> tuple[set[str], set[str]]:
    """Return the groups that a harness has begun, and those that it knows to be sealed."""
    facts = [fact for book in folder.glob("harness-*.jsonl") for fact in Journal(book).facts()]
    begun = {fact["group"] for fact in facts if fact["event"] == "intent" and fact["group"] is not None}
    return begun, {fact["group"] for fact in facts if fact["event"] == "sealed"}


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
    folder: Path, store: Reading, provider: Reading, pauses: list[Pause]
) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    intents, saved, given_up = _books(folder)
    executions = {row["idempotency_key"]: row for row in store.rows("SELECT * FROM execution")}
    requests = {row["idempotency_key"]: row for row in provider.rows("SELECT * FROM requests")}
    transitions: defaultdict[str, list[Row]] = defaultdict(list)
    for row in store.rows("SELECT * FROM transition ORDER BY execution_id, number"):
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


def _column(database: Reading, query: str) -> tuple[str, ...]:
    return tuple(row["value"] for row in database.rows(query))


def _count(database: Reading, query: str) -> int:
    return int(database.rows(query)[0]["value"])


_BY_STATE = "SELECT state, COUNT(*) AS n FROM execution GROUP BY state"
_CANCELS = """\
SELECT COUNT(*) AS value FROM execution
WHERE cancel_due_at IS NOT NULL AND (cancel_due_at <= {now} OR cancel_due_at > {latest})
"""
_UNHANDLED = """\
SELECT notification.event_id AS value FROM notification JOIN execution USING (provider, instance_id, request_id)
WHERE notification.state = 'received'
"""
_RESOLUTIONS = "SELECT execution_id || '_' || transition_number AS value FROM resolution ORDER BY number"
