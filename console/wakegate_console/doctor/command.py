"""`wakegate doctor`: what is wrong with this installation, and what to do."""

import asyncio
import os
from typing import Any

import click

from wakegate_console import listing
from wakegate_console.context import Context, pass_context
from wakegate_console.doctor import access, report
from wakegate_console.doctor import settings as settings_area
from wakegate_console.doctor.asking import ask_providers, ask_receiver
from wakegate_console.doctor.catalogue import CHECKS
from wakegate_console.doctor.check import examine, in_thread
from wakegate_console.doctor.deployment import deployment
from wakegate_console.doctor.facts import look
from wakegate_console.doctor.finding import Finding
from wakegate_console.doctor.posting import deliver
from wakegate_console.doctor.probing import Loaded, load
from wakegate_console.doctor.redis_look import look_at_queue
from wakegate_console.doctor.resumers import probe
from wakegate_console.doctor.site import Site
from wakegate_receiver.refusals_file import read_refusals
from wakegate_schema import clock, logs
from wakegate_schema.settings import Settings, SettingsError

USAGE = 2


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON array of objects.")
@click.option("--offline", is_flag=True, help="Send nothing over the network.")
@pass_context
def doctor(context: Context, as_json: bool, offline: bool) -> None:
    """Say what is wrong with this installation, and what to do.

    Nothing is changed. Each provider is asked for a request that does not exist, and one signed verification is sent to
    your own URL of each registration, unless --offline. docs/doctor.md explains every check. Exit code 1 if there is a
    problem.
    """
    logs.configure("console", level="error")
    try:
        settings = context.settings()
    except SettingsError as error:
        said = settings_area.not_loaded(error.problems)
        _write(
            [Finding(settings_area.LOAD, each.verdict, each.what, each.do) for each in said],
            as_json=as_json,
            offline=offline,
        )
        raise click.exceptions.Exit(USAGE) from None
    findings = asyncio.run(_examined(settings, offline=offline))
    _write(findings, as_json=as_json, offline=offline)
    if any(finding.verdict == "problem" for finding in findings):
        raise click.exceptions.Exit(1)


async def _examined(settings: Settings, *, offline: bool) -> list[Finding]:
    """Look at everything and make every check, and show on a terminal how far it is."""
    from rich.console import Console

    checks = [check for check in CHECKS if not (check.network and offline)]
    left = [check.name for check in checks]
    with Console(stderr=True).status("looking") as status:
        site = await visit(settings, offline=offline)

        def done(name: str) -> None:
            left.remove(name)
            status.update(f"looking at {', '.join(left[:3])}{' …' if len(left) > 3 else ''}")

        try:
            return await examine(checks, site, done)
        finally:
            await site.tasks.end()


async def visit(settings: Settings, *, offline: bool) -> Site:
    """Read what the checks look at, and begin what takes longer."""
    now = clock.now()
    store = await in_thread(lambda: look(settings.store, now))
    site = Site(settings, dict(os.environ), now, store, await in_thread(lambda: _refusals(settings)))
    site.tasks.loading = asyncio.create_task(_loading(settings))
    site.tasks.importing = asyncio.create_task(
        probe(settings.resumers, settings.resumers_directory, _worker_uid(settings))
    )
    site.tasks.health = asyncio.create_task(ask_receiver(settings.control_address))
    if not offline:
        site.tasks.asking = asyncio.create_task(ask_providers(site.instances, site.worker_key))
        site.tasks.queueing = asyncio.create_task(
            in_thread(lambda: look_at_queue(settings.queue, settings.queue_password_file, settings.pool))
        )
        site.tasks.delivering = asyncio.create_task(deliver(site.live, site.receiver_key, settings))
    return site


async def _loading(settings: Settings) -> Loaded:
    """Import the tools modules where the worker does, and as the worker's user where root asks."""
    return await load(settings.tools, _worker_uid(settings), deployment(settings).tools)


def _worker_uid(settings: Settings) -> int | None:
    """Return the worker's user where root asks, who can be another one; else None."""
    worker = deployment(settings).worker
    folder = access.status(settings.home.absolute())
    owner = 0 if folder is None else folder.st_uid  # before there is a key, the worker's user may be this one
    user = owner if worker is None else worker.uid
    return user if os.geteuid() == 0 and user else None


def _refusals(settings: Settings) -> list[dict[str, Any]]:
    try:
        return read_refusals(settings.refusals_path)
    except OSError:
        return []  # not this user's to read; nothing else depends on it


def _write(findings: list[Finding], *, as_json: bool, offline: bool) -> None:
    if as_json:
        asyncio.run(listing.write(listing.several(map(report.view, findings)), (), as_json=True, nothing=""))
    else:
        report.write_table(findings, offline=offline)
