"""The audit: the final count. Every line it returns is a fault of the program, or of the soak itself."""

from collections import Counter
from collections.abc import Iterator, Mapping

from soak import rules
from soak.calls import ENDED, WAKE_TARGET
from soak.clocks import SECOND, Knowledge
from soak.records import Records

STARTING = 15 * SECOND
"""How long a start may take on a busy machine, µs."""
Answers = Mapping[tuple[str, str], int]

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
    for check in (_store, _acknowledged, _wakes, _processes):
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
            permitted = step["to_state"] == "permitted" and case.mode == "harness"
            wake_id = f"{step['execution_id']}_{step['number']}"
            if (permitted or step["to_state"] in ENDED) and wake_id not in owed:
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


def _processes(records: Records) -> Iterator[str]:
    """No service ends by itself, unless the disk was full while it started; and each stops when it is told to."""
    full = False
    beginning: dict[str, tuple[int, bool]] = {}
    """When each service was started, and whether the disk was full at any time since."""
    for event in records.events:
        match event["event"]:
            case "disk_filling" | "disk_free":
                full = event["event"] == "disk_filling"
                beginning = {name: (at, full or was_full) for name, (at, was_full) in beginning.items()}
            case "start":
                beginning[event["service"]] = event["at"], full
            case "does_not_stop":
                yield f"{event['service']} (pid {event['pid']}) did not stop when it was told to"
            case "end" if not event["meant"]:
                at, was_full = beginning[event["service"]]
                if not (was_full and event["at"] - at < STARTING):
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
        ("signals", _listed(Counter({name: done[name] for name in ("SIGKILL", "SIGTERM", "SIGSTOP")}))),
        ("disk full", f"{done['disk_full']} times, {_with_empty_log(records)} of them with an empty write-ahead log"),
        ("clock changes", str(done["clock"])),
    ]


def _with_empty_log(records: Records) -> int:
    return sum(event["event"] == "disk_full" and event["log"] == 0 for event in records.events)


def too_little(records: Records, answers: Answers) -> list[str]:
    """Return what has not come about, so that the soak shows less than it says."""
    states = {case.execution["state"] for case in records.cases if case.execution is not None}
    done = {event["event"] for event in records.events}
    wanted = {
        "no event was acknowledged": records.acknowledged,
        "no call happened": any(case.effects for case in records.cases),
        "fewer than half of the approved calls ran": _half_ran(records),
        "nothing was answered with 503": any(answer == "503" for _, answer in answers),
        **{f"no call is {state}": state in states for state in ("succeeded", "denied", "expired", "in_doubt")},
        **{f"no {event}": event in done for event in ("SIGKILL", "SIGTERM", "SIGSTOP", "disk_full")},
    }
    return [what for what, found in wanted.items() if not found]


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
