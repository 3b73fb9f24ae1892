"""The database itself refuses what must never be, whoever asks, and writes what follows from a change.

SQLite and PostgreSQL are given the same statements.
"""

from collections.abc import Iterator
from contextlib import closing
from itertools import product
from typing import TYPE_CHECKING

import pytest

from support.raw import Raw, make_schema, open_raw
from support.raw_records import change, fill, new, taken_to
from support.refused import REFUSED
from support.tables import each_row
from wakegate_schema.states import ARROWS, State

if TYPE_CHECKING:
    from support.servers import PostgresServer

KEPT = ("clock_reset", "epoch", "execution", "transition", "call_group")
"""Tables that PostgreSQL's TRUNCATE must not empty; SQLite has none."""

WRITES = {
    "execution_begins_its_group", "execution_saved", "execution_changed", "execution_decided", "transition_wakes",
    "transition_resolves", "call_group_sealed", "execution_owes_a_report",
}  # fmt: skip
"""Triggers that refuse nothing."""

Databases = tuple[Raw, Raw]


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory, postgres_server: "PostgresServer") -> Iterator[Databases]:
    """The same records in SQLite and in PostgreSQL; what a test changes, it takes back."""
    name = postgres_server.create_database("invariants")
    with (
        closing(open_raw(f"sqlite:///{tmp_path_factory.mktemp('invariants')}/wakegate.db")) as sqlite,
        closing(open_raw(postgres_server.url(name))) as postgres,
    ):
        for raw in (sqlite, postgres):
            make_schema(raw)
            fill(raw)
        yield sqlite, postgres
    postgres_server.drop_database(name)


@each_row("rule", REFUSED)
def test_both_databases_refuse_by_the_same_rule(databases: Databases, rule: str) -> None:
    said = set()
    for case in REFUSED[rule]:
        *before, last = (case,) if isinstance(case, str) else case
        refusals = []
        for raw in databases:
            with raw.undone():
                for statement in before:
                    raw.execute(statement)
                refusals.append(raw.refusal(last))
        sqlite, postgres = refusals
        assert (postgres.rule, postgres.kind) == (rule, sqlite.kind), last
        if postgres.kind == "trigger":
            assert postgres.message == sqlite.message
        said.add(sqlite.message)
    assert len(said) == 1, "SQLite has one rule for it too"


def test_no_rule_is_left_out(databases: Databases) -> None:
    _, postgres = databases
    found = postgres.rows(
        "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
        " UNION ALL SELECT conname FROM pg_constraint"
        " WHERE contype IN ('c', 'f', 'u') AND connamespace = 'public'::regnamespace"
        " UNION ALL SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
        " WHERE indisunique AND indpred IS NOT NULL AND relnamespace = 'public'::regnamespace"
    )
    assert sorted(name for (name,) in found) == sorted(
        {*REFUSED, *WRITES, *(f"{each}_is_not_emptied" for each in KEPT)}
    )


@pytest.mark.parametrize("table", KEPT)
def test_what_is_kept_for_good_cannot_be_emptied(databases: Databases, table: str) -> None:
    _, postgres = databases
    with postgres.undone():
        refusal = postgres.refusal(f"TRUNCATE {table} CASCADE")
    assert refusal.kind == "trigger"
    assert refusal.rule in {f"{each}_is_not_emptied" for each in KEPT}


def test_no_other_change_of_state_is_there(databases: Databases) -> None:
    for raw in databases:
        assert set(raw.rows("SELECT from_state, to_state FROM arrow")) == ARROWS
        for begin, to in product(State, State):
            if to != begin and (begin, to) not in ARROWS:
                with raw.undone():
                    refusal = raw.refusal(change(begin, f"state = '{to}'"))
                assert refusal.message == "there is no such change of state"


@pytest.mark.parametrize("table", KEPT)
def test_nothing_of_what_is_kept_for_good_is_replaced(databases: Databases, table: str) -> None:
    sqlite, _ = databases
    with sqlite.undone():
        refusal = sqlite.refusal(f"REPLACE INTO {table} SELECT * FROM {table}")
    assert refusal.kind == "trigger"


BEGUN = [
    *taken_to("permitted", "claimable", runs="'harness'", wake="'w'"),
    *(statement for each in "abc" for statement in taken_to("permitted", f"g-{each}", group="'g'", wake="'w'")),
    *(statement for each in "ab" for statement in taken_to("submitting", f"h-{each}", group="'h'", wake="'w'")),
    new("notification", event_id="'of a decided call'", request_id="'g-a-r'", received_at="600"),
    new("notification", event_id="'of a given up call'", request_id="'g-b-r'", received_at="100"),
]
SEAL = "UPDATE call_group SET sealed_at = 600 WHERE sealed_at IS NULL"
ENDED = "due_at = NULL, finished_at = 650, changed_at = 500"

ENDS = {
    "a group is sealed while calls of it go on": [SEAL],
    "calls end while their group is open": [
        change("g-a", f"state = 'abandoned', {ENDED}"),
        change("g-b", f"state = 'lapsed', {ENDED}"),
    ],
    "a group whose calls ended at once is sealed": [
        f"UPDATE execution SET state = 'abandoned', {ENDED} WHERE \"group\" = 'g'",
        SEAL,
    ],
    "a group whose calls ended one by one is sealed": [
        *(
            change(f"g-{each}", f"state = 'lapsed', due_at = NULL, finished_at = {at}")
            for each, at in (("a", "651"), ("b", "652"), ("c", "NULL"))
        ),
        SEAL,
    ],
    "the calls of a sealed group end at once": [
        SEAL,
        f"UPDATE execution SET state = 'abandoned', {ENDED} WHERE \"group\" = 'g'",
    ],
    "the calls of several sealed groups end at once": [
        SEAL,
        f"UPDATE execution SET state = 'abandoned', {ENDED} WHERE state IN ('permitted', 'submitting')",
    ],
    "the last calls of a sealed group end at once": [
        SEAL,
        change("g-a", f"state = 'abandoned', {ENDED}"),
        f"UPDATE execution SET state = 'lapsed', {ENDED} WHERE \"group\" = 'g' AND state = 'permitted'",
    ],
    "a doubt is settled": [change("in_doubt", f"state = 'failed', {ENDED}")],
    "the request of an abandoned call becomes known": [
        new("notification", event_id="'late'", request_id="'late'"),
        change("abandoned", "request_id = 'late', request_created_at = 1, deadline_at = 9"),
    ],
    "a permission is told of again": [
        new("transition", execution_id="'claimable'", from_state="'permitted'", to_state="'permitted'"),
    ],
}  # fmt: skip

WRITTEN = (
    "SELECT execution_id, number, from_state, to_state, reason, actor, at FROM transition",
    "SELECT event_id, state, reason, handled_at FROM notification",
    "SELECT epoch, provider, instance_id, execution_id, transition_number, from_state, to_state, at FROM resolution",
    'SELECT provider, instance_id, "group", wake, created_at, sealed_at FROM call_group',
    "SELECT wake_id, execution_id, number, target, state, tries, due_at, created_at, to_state FROM wake"
    " WHERE group_number IS NULL",
    'SELECT call_group."group", execution."group", wake.due_at FROM wake'
    " JOIN call_group ON call_group.number = group_number JOIN execution ON execution.execution_id = wake.execution_id",
)
"""What triggers write. Of the calls that one statement ends, each database takes its own for the last."""


@each_row("end", ENDS)
def test_both_databases_write_the_same(databases: Databases, end: str) -> None:
    written, before = [], []
    for raw in databases:
        with raw.undone():
            for statement in BEGUN:
                raw.execute(statement)
            before.append([sorted(raw.rows(query), key=repr) for query in WRITTEN])
            for statement in ENDS[end]:
                raw.execute(statement)
            written.append([sorted(raw.rows(query), key=repr) for query in WRITTEN])
    assert written[0] == written[1]
    assert before[0] == before[1] != written[1]


def test_a_groups_wake_is_that_of_the_call_that_ended_last(databases: Databases) -> None:
    for raw in databases:
        with raw.undone():
            for statement in (*BEGUN, *ENDS["a group whose calls ended one by one is sealed"]):
                raw.execute(statement)
            assert ("g-b_5",) in raw.rows("SELECT wake_id FROM wake WHERE group_number IS NOT NULL")
