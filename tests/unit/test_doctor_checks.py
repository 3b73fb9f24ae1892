"""Checks are made side by side, each bounded, and none brings the others down."""

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

from wakegate_console.doctor.check import Check, examine
from wakegate_console.doctor.facts import StoreLook
from wakegate_console.doctor.finding import Finding, Said, note, ok
from wakegate_console.doctor.report import view
from wakegate_console.doctor.site import Site
from wakegate_schema.errors import WakegateError
from wakegate_schema.settings import load_settings

SITE = Site(load_settings(environ={}), {}, 0, StoreLook(Path("/nowhere")))


async def found_by(*checks: Check) -> list[Finding]:
    """What these checks find."""
    return await examine(checks, SITE, lambda _: None)


async def test_findings_bear_the_checks_name_and_come_in_the_checks_order() -> None:
    async def later(_: Site) -> Iterable[Said]:
        await asyncio.sleep(0.02)
        return [ok("first"), note("second")]

    ended: list[str] = []
    findings = await examine((Check("a.later", later), Check("b.now", lambda _: [ok("third")])), SITE, ended.append)
    assert [(each.check, each.area, each.what) for each in findings] == [
        ("a.later", "a", "first"),
        ("a.later", "a", "second"),
        ("b.now", "b", "third"),
    ]
    assert ended == ["b.now", "a.later"]


async def test_an_unforeseen_error_is_a_problem_of_its_check_and_its_message_is_not_told() -> None:
    def breaks(_: Site) -> Iterable[Said]:
        raise RuntimeError("planted-secret")

    async def breaks_too(_: Site) -> Iterable[Said]:
        raise KeyError("planted-secret")

    findings = await found_by(Check("a.b", breaks), Check("a.c", breaks_too), Check("a.d", lambda _: [ok("fine")]))
    assert [each.verdict for each in findings] == ["problem", "problem", "ok"]
    assert "RuntimeError" in findings[0].what
    assert "KeyError" in findings[1].what
    assert "planted-secret" not in repr(findings)


async def test_an_error_of_ours_is_told_in_its_own_words() -> None:
    def breaks(_: Site) -> Iterable[Said]:
        raise WakegateError("do this next")

    (finding,) = await found_by(Check("a.b", breaks))
    assert "do this next" in finding.what


async def test_a_check_that_comes_to_no_end_is_a_problem_and_holds_nobody_up() -> None:
    async def waits(_: Site) -> Iterable[Said]:
        await asyncio.sleep(60)
        return []

    def blocks(_: Site) -> Iterable[Said]:
        time.sleep(5)
        return []

    began = time.monotonic()
    findings = await found_by(Check("a.b", waits, limit_s=0.1), Check("a.c", blocks, limit_s=0.1))
    assert time.monotonic() - began < 4
    assert [each.verdict for each in findings] == ["problem", "problem"]
    assert "came to no end within 0.1 s" in findings[0].what


async def test_one_that_waits_no_more_stops_what_others_wait_for_for_nobody() -> None:
    async def answer() -> list[object]:
        await asyncio.sleep(0.3)
        return []

    async def look(site: Site) -> Iterable[Said]:
        return [ok(str(len(await site.asked())))]

    SITE.tasks.asking = asyncio.create_task(answer())  # type: ignore[arg-type]
    findings = await found_by(Check("a.b", look, limit_s=0.05), Check("a.c", look))
    assert [each.verdict for each in findings] == ["problem", "ok"]
    await SITE.tasks.end()
    SITE.tasks.asking = None


def test_a_finding_without_anything_to_do_says_null() -> None:
    assert view(Finding("store.wal", "ok", "small")) == {
        "area": "store",
        "check": "store.wal",
        "verdict": "ok",
        "what": "small",
        "do": None,
    }
