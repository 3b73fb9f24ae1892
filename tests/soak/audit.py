"""The audit: the final count. Every line it returns is a fault of the program, or of the soak itself."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from soak import rules
from soak.calls import ENDED, WAKE_TARGET
from soak.clocks import Knowledge
from soak.ground import HOME
from soak.reading import Row
from soak.records import Case, Records

RESOLVED = ENDED - {"in_doubt"}
Answers = Mapping[tuple[str, str], int]

TROUBLES: Mapping[str, tuple[str, ...]] = {
    "sqlite": ("disk_full",),
    "postgresql": ("postgresql_killed", "postgresql_cut"),
    "embedded": (),
    "redis": ("redis_killed", "redis_emptied"),
}
"""What no soak may go without, for each database and queue."""

ENOUGH = 60
"""Calls of which some surely come to each end."""

REFUSALS = frozenset({"400", "401", "413", "415", "429", "503"})
"""What junk may be answered with, beside a closed connection."""


def faults(records: Records, answers: Answers) -> list[str]:
    """Return everything that must not be.

    Args:
        records: what is on record.
        answers: how often each kind of delivery was answered in each way.
    """
    known = Knowledge(records.readings, records.starts)
    found = [
        f"{case.key} {case.tool} ({case.mode}): {fault}"
        for case in records.cases
        for fault in rules.faults(case, records.readings, known)
    ]
    for check in (_store, _acknowledged, _wakes, _groups, _streams, _processes):
        found += check(records)
    return found + list(_answers(answers))


def _store(records: Records) -> Iterator[str]:
    if records.integrity != ("ok",):
        yield f"the store is damaged: {'; '.join(records.integrity)}"
    for key in records.strangers:
        yield f"{key}: nobody was about to save it, and there is something of it"
    for event_id in records.unhandled:
        yield f"event {event_id}: it waits though its execution is known"


def _acknowledged(records: Records) -> Iterator[str]:
    """No 2xx without a row, and the row holds the very bytes."""
    for event_id, body in records.acknowledged.items():
        kept = records.notifications.get(event_id)
        if kept is None:
            yield f"event {event_id}: it was acknowledged and is not in the store"
        elif kept[0] != body:
            yield f"event {event_id}: the store holds other bytes than were acknowledged"
    for event_id in records.delivered:
        if event_id not in records.notifications:
            yield f"event {event_id}: the provider had a 2xx for it, and it is not in the store"


def _wakes(records: Records) -> Iterator[str]:
    """Every change that a harness is to hear of was told at least once, as it is on record."""
    if records.bad_wakes:
        yield f"{records.bad_wakes} wakes were not signed as they must be"
    owed = {wake["wake_id"]: wake for wake in records.wakes}
    for case in records.cases:
        if case.execution is None or case.execution["wake"] != WAKE_TARGET:
            continue
        for step in case.transitions:
            wake_id = f"{step['execution_id']}_{step['number']}"
            if _is_told(case, case.execution, step["to_state"]) and wake_id not in owed:
                yield f"{case.key}: no wake was owed for {step['to_state']}"
    for wake_id, wake in owed.items():
        told = records.told.get(wake_id, ())
        if wake["state"] != "delivered":
            yield f"wake {wake_id} ({wake['to_state']}) is {wake['state']}, after {wake['tries']} tries"
        elif not told:
            yield f"wake {wake_id} is on record as delivered and never came"
        if any(state != wake["to_state"] for _, state in told):
            yield f"wake {wake_id} told of {told}, and is about {wake['to_state']}"
    for wake_id in records.told.keys() - owed.keys():
        yield f"wake {wake_id} came and is not on record"


def _is_told(case: Case, execution: Row, state: str) -> bool:
    """Say whether a call's own wake is owed for a state: of a group's calls only what asks for something is told."""
    if state == "permitted":
        return case.mode == "harness"
    return state in ENDED and (state == "in_doubt" or execution["group"] is None)


def _groups(records: Records) -> Iterator[str]:
    """A sealed group whose calls are all resolved was told once, of all of them; no other was."""
    members: defaultdict[str, list[str]] = defaultdict(list)
    for case in records.cases:
        if case.execution is not None and case.execution["group"] is not None:
            members[case.execution["group"]].append(case.execution["state"])
    known = {row["group"]: row for row in records.groups}
    for group in members.keys() ^ known.keys():
        yield f"group {group}: there are calls without it, or it is without calls"
    for name, row in known.items():
        if (row["sealed_at"] is None) and name in records.completed:
            yield f"group {name}: it was said to be sealed and is not"
        told = [wake for wake in records.wakes if wake["group_number"] == row["number"]]
        complete = row["sealed_at"] is not None and all(state in RESOLVED for state in members[name])
        if len(told) != complete:
            yield f"group {name}: {len(told)} wakes are on record, its calls are {', '.join(members[name])}"
        for wake in told:
            for calls in records.told_of.get(wake["wake_id"], frozenset()) - {len(members[name])}:
                yield f"group {name}: it was told of with {calls} calls, and has {len(members[name])}"


def _streams(records: Records) -> Iterator[str]:
    """Each harness was told all that was resolved by the stream, in order, and nothing again."""
    order = {id_: place for place, id_ in enumerate(records.resolutions)}
    steps = {
        f"{step['execution_id']}_{step['number']}"
        for case in records.cases
        for step in case.transitions
        if step["to_state"] in ENDED or (step["to_state"] == "permitted" and case.mode != "worker")
    }
    for id_ in steps ^ order.keys():
        yield f"resolution {id_}: it is in the log and not in the history, or the other way round"
    for name, heard in records.streams.items():
        places = [order.get(id_, -1) for id_ in heard]
        if places != list(range(len(order))):
            missing, strange = len(order.keys() - set(heard)), len(set(heard) - order.keys())
            yield (
                f"stream of {name}: {len(heard)} of {len(order)} resolutions came; {missing} are missing,"
                f" {len(heard) - len(set(heard))} came again, {strange} are not in the log, or they are out of order"
            )


def _processes(records: Records) -> Iterator[str]:
    """No service ends by itself, unless the store was away while it started; and each stops when it is told to."""
    away = False
    was_away: dict[str, bool] = {}
    """Of each service, whether the store was away at any time since it was started."""
    for event in records.events:
        match event["event"]:
            case "disk_filling" | "disk_free" | "database_gone" | "database_back":
                away = event["event"] in ("disk_filling", "database_gone")
                was_away = {name: away or before for name, before in was_away.items()}
            case "start":
                was_away[event["service"]] = away
            case "does_not_stop":
                yield f"{event['service']} (pid {event['pid']}) did not stop when it was told to"
            case "end" if not event["meant"] and (event["worked"] or not was_away[event["service"]]):
                yield f"{event['service']} (pid {event['pid']}) ended by itself with {event['code']}"


def _answers(answers: Answers) -> Iterator[str]:
    """Junk gets no 2xx, and nothing gets a 500."""
    for (kind, answer), count in answers.items():
        if not answer.isdigit():
            continue
        if (kind.startswith("junk") and answer not in REFUSALS) or (answer.startswith("5") and answer != "503"):
            yield f"{kind} was answered with {answer}, {count} times"


def figures(records: Records, answers: Answers) -> list[tuple[str, str]]:
    """Return what was counted, for people to read."""
    states = Counter(
        f"{case.execution['state']}" if case.execution is not None else "never saved" for case in records.cases
    )
    lapses = Counter(
        case.execution["reason"]
        for case in records.cases
        if case.execution is not None and case.execution["state"] == "lapsed"
    )
    doubts = Counter(
        case.execution["reason"]
        for case in records.cases
        if case.execution is not None and case.execution["state"] == "in_doubt"
    )
    done = Counter(event["event"] for event in records.events)
    return [
        ("acknowledged events", f"{len(records.acknowledged)} of the load, {len(records.delivered)} of the provider"),
        ("notifications kept", str(len(records.notifications))),
        ("answers", _listed(Counter(_summed(answers)))),
        ("calls", _listed(states)),
        ("lapsed by", _listed(lapses)),
        ("in doubt by", _listed(doubts)),
        ("effects", str(sum(len(case.effects) for case in records.cases))),
        ("wakes", f"{len(records.wakes)} owed, {sum(map(len, records.told.values()))} arrived"),
        ("groups", f"{len(records.groups)}, {sum(wake['group_number'] is not None for wake in records.wakes)} told"),
        ("resolutions", f"{len(records.resolutions)}, streamed to {len(records.streams)} harnesses"),
        ("signals", _listed(Counter({name: done[name] for name in ("SIGKILL", "SIGTERM", "SIGSTOP")}))),
        ("clock changes", str(done["clock"])),
        *_outages(records, done),
    ]


def _outages(records: Records, done: Counter[str]) -> Iterator[tuple[str, str]]:
    if done["disk_full"]:
        empty = sum(event["event"] == "disk_full" and event["log"] == 0 for event in records.events)
        yield "disk full", f"{done['disk_full']} times, {empty} of them with an empty write-ahead log"
    for server in ("postgresql", "pooler", "redis"):
        kinds = {name.removeprefix(f"{server}_"): done[name] for name in done if name.startswith(f"{server}_")}
        if kinds:
            yield server, _listed(Counter(kinds))


def too_little(records: Records, answers: Answers) -> list[str]:
    """Return what has not come about, so that the soak shows less than it says."""
    states = {case.execution["state"] for case in records.cases if case.execution is not None}
    done = {event["event"] for event in records.events}
    few = 0 < len(records.cases) < ENOUGH
    wanted = {
        "no event was acknowledged": records.acknowledged,
        "no call happened": any(case.effects for case in records.cases),
        "fewer than half of the approved calls ran": _half_ran(records),
        "nothing was answered with 503": any(answer == "503" for _, answer in answers),
        "no call is succeeded": "succeeded" in states,
        **{f"no call is {state}": state in states or few for state in ("denied", "expired", "in_doubt")},
        "no group was sealed": records.completed,
        "no stream was followed": len(records.streams) > 1 and all(records.streams.values()),
        **{f"no {event}": event in done for event in ("SIGKILL", "SIGTERM", "SIGSTOP", *_troubles_of(records))},
    }
    return [what for what, found in wanted.items() if not found]


def _troubles_of(records: Records) -> tuple[str, ...]:
    """Return what must have come over the database and the queue of this soak's ground."""
    ground = next((event["ground"] for event in records.events if event["event"] == "ground"), str(HOME))
    database, _, queue = ground.partition("+")
    return (*TROUBLES[database], *TROUBLES[queue])


def _half_ran(records: Records) -> bool:
    approved = [case for case in records.cases if case.request is not None and case.request["status"] == "approved"]
    ran = [case for case in approved if case.execution is not None and case.execution["started_at"] is not None]
    return 2 * len(ran) >= len(approved)


def _summed(answers: Answers) -> dict[str, int]:
    summed: Counter[str] = Counter()
    for (kind, answer), count in answers.items():
        summed[f"{'junk ' if kind.startswith('junk') else ''}{answer}"] += count
    return summed


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()) if count) or "none"
