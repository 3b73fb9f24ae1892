"""The commands about backups, epochs and the soundness of a store."""

import asyncio
import json
import sqlite3
from contextlib import closing

import pytest

from support.console import Console, looked_up, prepared
from support.desk import Desk
from wakegate_schema import clock
from wakegate_schema.records import Execution


async def _held(desk: Desk) -> list[str]:
    """Two calls of an older epoch, and one of the present one."""
    held = [await desk.waiting(idempotency_key="run-7:call-2"), await desk.save()]
    await desk.store.raise_epoch("restored", "operator:mika", clock.now())
    return [each.execution_id for each in (*held, await desk.save())]


def executions(console: Console) -> dict[str, Execution]:
    """Everything in the store, by id."""
    return {each.execution_id: each for _, each in looked_up(console, lambda store: store.executions())}


def test_what_waits_for_a_release_is_listed_and_shown_with_what_to_do(console: Console) -> None:
    held, _, free = prepared(console, _held)
    rows = {row["execution_id"]: row for row in console("execution", "list", "--json").json}
    assert (rows[held]["problem"], rows[held]["epoch"]) == ("older_epoch", 1)
    assert (rows[free]["problem"], rows[free]["epoch"]) == ("no_worker_has_the_tool", 2)
    assert console("execution", "list").out.count("older_epoch") == 2
    shown = console("execution", "show", held).out
    assert "problem:" in shown
    assert "`wakegate execution release`" in shown
    assert "`wakegate execution abandon`" in shown


def test_a_release_says_what_it_means_who_says_so_and_what_was_released(console: Console) -> None:
    held, other, free = prepared(console, _held)
    ran = console("execution", "release", "run-7:call-2", held, "--by", "mika", "--note", "asked the bank")
    assert (ran.code, ran.out) == (0, f"{held}: waiting, released into epoch 2\n")
    assert "1 call may have run in the time that the store does not know of" in ran.err
    shown = console("execution", "show", held, "--json").json
    assert (shown["problem"], shown["epoch"], shown["release_note"]) == (
        "no_worker_has_the_tool",
        2,
        "asked the bank",
    )
    assert shown["released_at"] is not None
    last = shown["transitions"][-1]
    assert (last["from"], last["to"], last["reason"], last["actor"]) == (
        "waiting",
        "waiting",
        "released",
        "operator:mika",
    )
    found = executions(console)
    assert (found[other].problem, found[free].released_at) == ("older_epoch", None)


def test_everything_that_waits_is_released_at_once(console: Console) -> None:
    held, other, free = prepared(console, _held)
    ran = console("execution", "release", "--all", "--note", "nothing ran")
    assert ran.out.splitlines() == [f"{held}: waiting, released into epoch 2", f"{other}: saved, released into epoch 2"]
    assert {each.problem for each in executions(console).values()} == {None}
    assert console("execution", "release", "--all", "--note", "again").out == "Nothing waits for a release.\n"
    (_, last) = looked_up(console, lambda store: store.transitions(other))
    assert last.actor.startswith("operator:")
    assert executions(console)[free].released_at is None


def test_of_very_many_the_first_are_told_and_all_are_released(console: Console) -> None:
    async def work(desk: Desk) -> None:
        await asyncio.gather(*(desk.save() for _ in range(230)))
        await desk.store.raise_epoch("restored", "operator:mika", clock.now())

    prepared(console, work)
    ran = console("execution", "release", "--all", "--note", "nothing ran")
    assert ran.out.count("released into epoch 2") == 230
    assert ran.err.splitlines()[-1] == "  and 210 more"
    assert looked_up(console, lambda store: store.held_executions()) == []


def test_one_that_waits_for_no_release_releases_none_of_the_others(console: Console) -> None:
    held, _, free = prepared(console, _held)
    ran = console("execution", "release", held, free, "--note", "x")
    assert (ran.code, ran.out) == (1, "")
    assert f"{free} is saved and waits for no release; nothing was changed" in ran.err
    assert executions(console)[held].problem == "older_epoch"


@pytest.mark.parametrize(
    "arguments", [("--note", "x"), ("--all", "some", "--note", "x"), ("--all",), ("some",), ("--all", "--note", " ")]
)
def test_a_release_without_its_words_is_a_usage_error(console: Console, arguments: tuple[str, ...]) -> None:
    prepared(console, _held)
    assert console("execution", "release", *arguments).code == 2
    assert sum(each.problem is not None for each in executions(console).values()) == 2


def test_a_sound_store_is_told_so(console: Console) -> None:
    prepared(console, _held)
    ran = console("db", "check")
    assert (ran.code, ran.err) == (0, "")
    told = {tuple(line.replace(":", " ", 1).split()) for line in ran.out.splitlines()}
    assert {("sound", "yes"), ("epoch", "2"), ("epoch_reason", "restored"), ("held", "2")} <= told
    view = console("db", "check", "--json").json
    assert (view["sound"], view["faults"], view["backup_made_at"]) == (True, [], None)
    assert (view["executions"], view["in_doubt"], view["held"]) == (3, 0, 2)
    assert view["bytes"] > 0


def test_a_store_that_lost_a_guard_is_not_sound(console: Console) -> None:
    prepared(console, _held)
    with closing(sqlite3.connect(console.directory / "wakegate.db")) as raw:
        raw.execute("DROP TRIGGER execution_is_kept")
    ran = console("db", "check")
    assert ran.code == 1
    assert "execution_is_kept" in ran.out
    assert "is not sound; stop the services" in ran.err
    ran = console("db", "check", "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["faults"] == [{"kind": "schema", "subject": "execution_is_kept", "detail": "is missing"}]


def test_a_backup_says_what_it_is_when_it_is_checked(console: Console) -> None:
    prepared(console, _held)
    assert console("db", "backup", "backup.db").code == 0
    console.set("WAKEGATE_DATABASE", f"sqlite:///{console.directory}/backup.db")
    view = console("db", "check", "--json").json
    assert (view["sound"], view["held"]) == (True, 2)
    assert view["backup_made_at"] is not None
    for arguments in (("db", "prune"), ("db", "migrate"), ("execution", "release", "--all", "--note", "x")):
        ran = console(*arguments)
        assert (ran.code, ran.out) == (2, "")
        assert "is a backup" in ran.err


def test_a_backup_replaces_nothing_unless_it_is_forced(console: Console) -> None:
    prepared(console, _held)
    assert console("db", "backup", "backup.db").code == 0
    ran = console("db", "backup", "backup.db")
    assert (ran.code, ran.out) == (1, "")
    assert "is there already; name another, or give --force" in ran.err
    assert console("db", "backup", "backup.db", "--force").code == 0
    key = console.secret_file("worker.key", "a key")
    ran = console("db", "backup", "worker.key", "--force")
    assert (ran.code, ran.err) == (1, "wakegate: worker.key is a key file; name another\n")
    assert key.read_text() == "a key"


def test_a_restore_says_what_it_did_and_what_is_left_to_do(console: Console) -> None:
    prepared(console, _held)
    console("db", "backup", "backup.db")
    ran = console("db", "restore", "backup.db")
    assert (ran.code, ran.err) == (0, "")
    assert f"as {console.directory}/wakegate.db; this is epoch 3" in ran.out
    assert "the store that was there is kept as" in ran.out
    assert "3 calls had not started and may have run since: nothing runs again by itself" in ran.out


@pytest.mark.parametrize("arguments", [("db", "backup", "b.db"), ("db", "check")])
def test_without_a_store_there_is_nothing_to_keep_or_to_check(console: Console, arguments: tuple[str, ...]) -> None:
    ran = console(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "there is no store at" in ran.err
    assert list(console.directory.iterdir()) == []
