"""The work: whether the services run, and whether what is in the store gets done; a part of the area `store`."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from wakegate_console import advice
from wakegate_console.doctor.asking import Health
from wakegate_console.doctor.check import Check
from wakegate_console.doctor.finding import Said, counted, lasted, note, ok, problem, warning
from wakegate_console.doctor.posting import is_ours
from wakegate_console.doctor.site import Site
from wakegate_console.text import printable
from wakegate_schema.clock import HOUR, SECOND
from wakegate_schema.records import ClockMark

SIGN_OF_LIFE: Final = 90 * SECOND
"""A worker raises its host's clock mark several times in so long, µs."""
OVERDUE: Final = 30 * SECOND
"""Work that is due for longer is not being done, µs."""
OWED_FOR: Final = HOUR
"""A provider that answers is told of an outcome long before, µs."""


def doubts(site: Site) -> Iterator[Said]:
    """Tell of calls in doubt."""
    facts = site.store.facts
    if facts is None:
        return
    count, since = facts.census.executions.get("in_doubt", 0), facts.census.in_doubt_since
    if count:
        age = lasted((site.now - (since or site.now)) / SECOND)
        yield warning(
            f"{counted(count, 'call is', 'calls are')} in doubt, the oldest for {age}",
            "find out whether it happened, then `wakegate execution resolve`; `execution list` shows them first",
        )
    else:
        yield ok("no call is in doubt")


async def receiver(site: Site) -> list[Said]:
    """Say whether the receiver runs and can take webhooks."""
    health = await site.health()
    wanted = any(each.delivery == "webhook" for each in site.instances) or bool(site.live)
    address = site.settings.control_address
    where = str(address.absolute() if isinstance(address, Path) else address)
    return [] if health is None else [judge_health(health, where, wanted=wanted)]


def judge_health(health: Health, address: str, *, wanted: bool) -> Said:
    """Say what the control listener's word means.

    Args:
        health: what it said.
        address: where it is.
        wanted: whether anything is delivered by webhook here.
    """
    if health.obstacle == "refused_to_us":
        return note(f"this user may not ask the receiver at {address}", "run this as root, or in its group")
    if health.obstacle == "silent":
        return problem(f"what listens at {address} does not answer as a receiver", "look at the receiver's log")
    if health.obstacle is not None:
        if wanted:
            return problem(f"no receiver runs: nothing listens at {address}", "start it: wakegate receiver")
        return note(f"no receiver runs: nothing listens at {address}", "needed only for webhooks and the control API")
    if not health.ready:
        return problem(
            f"the receiver is not ready: {printable(health.reason or 'it does not say why')}",
            "docs/answers.md (control socket) explains the reason; look at its log",
        )
    return ok("the receiver is ready")


def worker(site: Site) -> Iterator[Said]:
    """Say whether a worker runs: one raises its host's clock mark every few seconds."""
    facts = site.store.facts
    if facts is not None:
        yield judge_worker(facts.marks, facts.census.due, site.now)


def judge_worker(marks: Sequence[ClockMark], due: Mapping[str, int], now: int) -> Said:
    """Say whether somebody works on this store, and whether anything waits for it.

    Args:
        marks: of every host.
        due: since when, or until when, the first of each kind of work waits, µs.
        now: µs.
    """
    past = [mark for mark in marks if mark.highest_at <= now + SIGN_OF_LIFE]  # a clock that is ahead proves nothing
    last = max(past, key=lambda mark: mark.highest_at, default=None)
    alive = last is not None and now - last.highest_at <= SIGN_OF_LIFE
    late = {kind: now - at for kind, at in due.items() if now - at > OVERDUE}
    if late:
        what = ", ".join(f"{_KINDS.get(kind, kind)} for {lasted(age / SECOND)}" for kind, age in sorted(late.items()))
        if alive:
            return warning(
                f"work is overdue although somebody works: {what}",
                "look at the worker's log, at store.tools and store.resumers, for what nobody can do waits too; raise"
                " WAKEGATE_WORKER_CONCURRENCY if it is busy",
            )
        return problem(f"no worker runs, and work is overdue: {what}", "start one: wakegate worker")
    if alive and last is not None:
        return ok(f"a worker, or a harness, was at work on {printable(last.host)} a moment ago; nothing is overdue")
    sign = "there never was a sign of one"
    if last is not None:
        sign = f"the last sign of one, on {printable(last.host)}, is {lasted((now - last.highest_at) / SECOND)} old"
    return warning(f"no worker runs: {sign}; nothing is overdue yet", "start one: wakegate worker")


def stuck(site: Site) -> Iterator[Said]:
    """Tell of calls that cannot go on, and why."""
    facts = site.store.facts
    if facts is None:
        return
    told = {name: count for name, count in facts.problems.items() if name != "older_epoch"}
    for name, count in told.items():
        yield warning(
            f"{counted(count, 'call')} cannot go on now: {printable(name)}",
            advice.for_problem(name) or "docs/reasons.md says what the problem is; it is tried again",
        )
    if not told:
        yield ok("nothing keeps a call from going on")


def tools(site: Site) -> Iterator[Said]:
    """Say whether a living worker has every tool that undecided calls name."""
    facts = site.store.facts
    if facts is None or not any(each.lives_at(site.now) for each in facts.workers):
        return  # that none lives is told by `store.worker`
    for one in facts.missing:
        version = "" if one.version is None else f" at version {printable(one.version)}"
        yield problem(
            f"{counted(one.calls, 'call waits', 'calls wait')} for the tool {printable(one.tool)}{version}, which no"
            " living worker has",
            "run a worker that has it (`wakegate pool list` shows who has what), or abandon them",
        )
    if not facts.missing:
        yield ok("every tool that a call waits for is on a living worker")


def wakes(site: Site) -> Iterator[Said]:
    """Tell of wakes that were given up."""
    facts = site.store.facts
    if facts is None:
        return
    lost, owed = facts.census.wakes.get("undelivered", 0), facts.census.wakes.get("owed", 0)
    if lost:
        yield warning(
            f"{counted(lost, 'wake')} could not be delivered and {'is' if lost == 1 else 'are'} not tried any more",
            "find out what keeps the target from taking them, then `wakegate wake list` and `wakegate wake replay`",
        )
    else:
        yield ok(f"no wake was given up; {counted(owed, 'wake is', 'wakes are')} owed")


def resumers(site: Site) -> Iterator[Said]:
    """Say whether a living worker can resume every framework that adopted requests wait for."""
    facts = site.store.facts
    if facts is None:
        return
    for framework, count in facts.resumers.items():
        yield problem(
            f"{counted(count, 'adopted request waits', 'adopted requests wait')} for {printable(framework)}, which no"
            " living worker can resume",
            f"add {printable(framework)} to WAKEGATE_RESUMERS and restart a worker; settings.resumers tries what it"
            " names",
        )
    if not facts.resumers:
        owed = counted(facts.census.adoptions, "adopted request is", "adopted requests are")
        yield ok(f"no framework waits for a resumer that nobody has; {owed} to be resumed")


def reports(site: Site) -> Iterator[Said]:
    """Tell of outcomes that a provider is owed for long."""
    facts = site.store.facts
    if facts is not None:
        yield judge_reports(facts.census.reports, facts.unreported_since, site.now)


def judge_reports(count: int, since: int | None, now: int) -> Said:
    """Say what owed reports mean.

    Args:
        count: of calls whose provider is to be told of the outcome.
        since: when the oldest of them came to its end, µs; None where there is none.
        now: µs.
    """
    if since is None or now - since <= OWED_FOR:
        return ok(f"{counted(count, 'outcome is', 'outcomes are')} still to be told to a provider")
    return warning(
        f"{counted(count, 'outcome is', 'outcomes are')} still to be told to a provider, the oldest for"
        f" {lasted((now - since) / SECOND)}",
        "see whether a worker runs and reaches the provider (provider.reach, provider.credential); its log says why"
        " (action `report`)",
    )


def groups(site: Site) -> Iterator[Said]:
    """Tell of groups that nothing but their seal is missing of."""
    facts = site.store.facts
    if facts is None:
        return
    if count := facts.stuck_groups:
        yield warning(
            f"{counted(count, 'group')} of calls {'is' if count == 1 else 'are'} resolved and not sealed, so nobody is"
            " woken",
            "have the harness seal a group when its calls are all saved (docs/harness.md)",
        )
    else:
        yield ok("no group waits for nothing but its seal")


def refusals(site: Site) -> Iterator[Said]:
    """Tell of what the receiver has refused in the last hour."""
    recent = Counter(each["reason"] for each in site.refusals if each["at"] > site.now - HOUR and not is_ours(each))
    yield from judge_refusals(recent)


def judge_refusals(recent: Mapping[str, int]) -> Iterator[Said]:
    """Say what refusals of the last hour mean.

    Args:
        recent: how many by reason.
    """
    for reason, count in sorted(recent.items()):
        if reason in CAUSES:
            yield warning(
                f"{counted(count, 'delivery was', 'deliveries were')} refused in the last hour: {reason}",
                CAUSES[reason],
            )
    noise = sum(count for reason, count in recent.items() if reason not in CAUSES)
    if noise:
        yield note(
            f"{counted(noise, 'other request was', 'other requests were')} refused in the last hour, as the internet"
            " brings them",
            "`wakegate refusal list` shows them",
        )
    if not recent:
        yield ok("nothing was refused in the last hour")


def anomalies(site: Site) -> Iterator[Said]:
    """Tell of anomalies of the last day."""
    facts = site.store.facts
    if facts is None:
        return
    kinds: Sequence[tuple[str, int]] = sorted(Counter(each.kind for each in facts.anomalies).items())
    for kind, count in kinds:
        yield warning(
            f"{counted(count, 'anomaly', 'anomalies')} in the last day: {printable(kind)}",
            "`wakegate notification show` and `wakegate execution show` tell what happened",
        )
    if not kinds:
        yield ok("no anomaly in the last day")


CAUSES: Final[Mapping[str, str]] = {
    "wrong_signature": "a proxy rewrites bodies (url.delivery tries it), or the secret is another: `wakegate verify`"
    " tells for a captured one",
    "timestamp_off": "this host's clock or the provider's is off (clock.provider), or something holds deliveries up",
    "unknown_instance": "somebody signs for an instance that this store does not know: is it the right store?",
    "not_live": "a provider still signs under a registration that was replaced: rotate again, or wait for its retry",
    "registration_retired": "a provider still delivers to a retired registration: wakegate instance delete",
    "registration_superseded": "a provider still verifies a registration that was replaced",
    "registration_expired": "a verification came too late: provision or import again",
    "unknown_registration": "the provider delivers to the wrong receiver, or this one uses another store",
    "bound_to_other_instance": "two instances claim one registration: look at `wakegate instance show`",
    "instance_bound_elsewhere": "two registrations claim one instance: look at `wakegate instance show`",
    "event_conflict": "a provider gives one event id to two events: tell its operator",
    "missing_webhook_id": "a proxy strips the webhook-… headers, or it was no provider",
    "missing_webhook_timestamp": "a proxy strips the webhook-… headers",
    "missing_webhook_signature": "a proxy strips the webhook-… headers",
    "wrong_content_type": "a proxy changes Content-Type, or it was no provider",
    "wrong_content_encoding": "a proxy compresses bodies: switch that off for this path",
    "body_too_large": "raise WAKEGATE_MAX_BODY_BYTES if it was a provider",
    "request_timeout": "a proxy sends bodies slowly: switch off its buffering, or look at the network",
    "rate_limit": "raise WAKEGATE_RATE_LIMIT, or find out who sends so much",
    "concurrency_limit": "raise WAKEGATE_MAX_CONCURRENCY, or find out what makes the store slow",
    "too_many_connections": "raise WAKEGATE_MAX_CONNECTIONS, or keep strangers away from the port",
    "store_unavailable": "the store could not be written: look at the receiver's log",
    "store_timeout": "the store was too slow: look at the disk",
    "unforeseen": "a fault of the receiver's own: look at its log, and report it",
    "tls_failed": "a client does not trust the certificate (url.certificate), or speaks no TLS 1.2",
}
"""The likely cause of what should not be refused; everything else comes from strangers, and is counted only."""

CHECKS: Final = (
    Check("store.doubts", doubts),
    Check("store.receiver", receiver),
    Check("store.worker", worker),
    Check("store.stuck", stuck),
    Check("store.tools", tools),
    Check("store.resumers", resumers),
    Check("store.wakes", wakes),
    Check("store.reports", reports),
    Check("store.groups", groups),
    Check("store.refusals", refusals),
    Check("store.anomalies", anomalies),
)

_KINDS: Final[Mapping[str, str]] = {
    "execution": "looks at calls",
    "attempt": "calls whose runner is gone",
    "cancel": "cancels",
    "report": "reports of outcomes",
    "adoption": "runs of frameworks",
    "wake": "wakes",
}
