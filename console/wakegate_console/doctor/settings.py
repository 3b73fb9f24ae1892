"""The settings: where they come from, and whether what they name is there."""

import stat
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from wakegate_console.doctor import access
from wakegate_console.doctor import resumers as resumer_probe
from wakegate_console.doctor.access import User
from wakegate_console.doctor.check import Check
from wakegate_console.doctor.deployment import deployment
from wakegate_console.doctor.finding import Said, counted, note, ok, problem, warning
from wakegate_console.doctor.probing import LIMIT_S, Loaded
from wakegate_console.doctor.site import Site
from wakegate_console.text import printable
from wakegate_schema.settings import Settings
from wakegate_schema.wake_targets import NONE, WakeTarget

TEST_PREFIX: Final = "WAKEGATE_TEST_"


def file(site: Site) -> Iterator[Said]:
    """Say which settings file is in force, that nobody else may write it, and that the services can read it."""
    config = site.settings.config_file
    if config is None or not config.found:
        yield ok("no settings file; the environment and the defaults are in force")
        return
    status = config.path.stat()
    mode = stat.S_IMODE(status.st_mode)
    barred = [f"{what} ({who.name})" for what, who in deployment(site.settings).users if not who.reads(config.path)]
    if barred:
        yield problem(
            f"{' and '.join(barred)} cannot read {config.path}: no service starts without it, and harnesses are refused"
            " (harnesses_unreadable)",
            f"let them read it and enter every folder on the way: chgrp GROUP {config.path} && chmod 640 {config.path}",
        )
    elif mode & 0o002:
        yield problem(f"everybody may write {config.path} (mode {mode:04o})", f"chmod o-w {config.path}")
    elif mode & 0o020:
        yield warning(
            f"the group {access.group_name(status.st_gid)} may write {config.path} (mode {mode:04o}), which says"
            " whom wakegate wakes and who may ask it",
            f"chmod g-w {config.path}",
        )
    else:
        yield ok(f"{config.path} is in force; the environment goes over it")


def sources(site: Site) -> Iterator[Said]:
    """Say where every setting comes from that has not its default; never what it is."""
    places = site.places
    named = [f"{name} ({places[name]})" for name in Settings.model_fields if name in places]
    yield ok(f"set: {', '.join(named)}" if named else "every setting has its default")


def tests(site: Site) -> Iterator[Said]:
    """Warn of what only tests of wakegate itself should set."""
    found = sorted(name for name in site.environ if name.startswith(TEST_PREFIX))
    if found:
        yield problem(
            f"{', '.join(map(printable, found))} {'is' if len(found) == 1 else 'are'} set, which changes clocks or"
            " breaks things on purpose",
            "unset it here and for the services, unless you test wakegate itself",
        )
    else:
        yield ok("nothing is set that is for tests only")


async def tools(site: Site) -> list[Said]:
    """Say which tools the worker would have."""
    if not site.settings.tools:
        return [
            note("no tools modules are named: only calls that harnesses run themselves can run", "set WAKEGATE_TOOLS")
        ]
    loaded = await site.loaded() or Loaded()
    whose = "" if loaded.user is None else f" (imported as {loaded.user})"
    if loaded.problem is not None:
        return [
            problem(
                f"{printable(loaded.problem)}{whose}",
                "correct it, or run this in the worker's folder and with its environment: modules are looked for there",
            )
        ]
    named = ", ".join(f"{name} {version}" for name, version in sorted(loaded.tools.items()))
    return [ok(f"{counted(len(loaded.tools), 'tool')}{whose}: {printable(named)}")]


async def needed_tools(site: Site) -> list[Said]:
    """Say which tools saved calls need and no module has."""
    loaded = await site.loaded()
    if site.store.facts is None or loaded is None or loaded.problem is not None:
        return []
    elsewhere = {name for worker in site.store.facts.workers if worker.lives_at(site.now) for name in worker.tools}
    known = elsewhere | loaded.tools.keys()
    missing = {name: count for name, count in site.store.facts.tools.items() if name not in known}
    return [
        problem(
            f"{counted(count, 'unfinished call')} for the tool {printable(name)}, which no tools module here and no"
            " living worker has",
            "add its module to WAKEGATE_TOOLS and restart the worker, or abandon them",
        )
        for name, count in missing.items()
    ] or [ok("every tool that an unfinished call needs is there")]


def wake(site: Site) -> Iterator[Said]:
    """Look at the wake targets, and whether those exist that calls have chosen."""
    known = {name: target for name, target in site.settings.wake_targets.items() if name != NONE}
    worker = deployment(site.settings).worker
    for _, target in sorted(known.items()):
        yield from _target(target, worker)
    wanted: Mapping[str, int] = {} if site.store.facts is None else site.store.facts.targets
    for name, count in wanted.items():
        if name not in known:
            yield problem(
                f"{counted(count, 'unfinished call or owed wake', 'unfinished calls and owed wakes')} for the wake"
                f" target {printable(name)}, which is in no settings file",
                f"add [wake.{printable(name)}] again and restart the worker",
            )
    if not known and not wanted:
        yield ok("no wake targets: harnesses ask for what became of their calls")


def _target(target: WakeTarget, worker: User | None) -> Iterator[Said]:
    subject = f"wake target {target.name}"
    if target.kind == "http":
        url = urlsplit(target.url or "")
        yield ok(f"{subject} is called at {url.scheme}://{url.netloc}")
    elif target.kind == "command":
        yield _program(subject, Path(target.argv[0]), worker)
    elif target.kind == "python":
        yield _entry_point(subject, target)
    if target.directory is not None and not target.directory.is_dir():
        yield problem(f"{subject} runs in {target.directory}, which is no folder", "make it, or correct the target")


def _program(subject: str, program: Path, worker: User | None) -> Said:
    """Look whether the worker can run a program, and that nobody else can put another in its place."""
    shown = printable(str(program))
    status = access.status(program)
    if status is None or not stat.S_ISREG(status.st_mode):
        return problem(f"{subject} runs {shown}, which is not there", "install it, or correct the target")
    able = status.st_mode & 0o111 if worker is None or worker.uid == 0 else worker.may(status, access.ENTER)
    if not able:
        who = "nobody" if worker is None else worker.name
        return problem(f"{subject} runs {shown}, which {who} may not execute", f"chmod +x {shown}")
    if status.st_mode & 0o002:
        return problem(f"everybody may write {shown}, which {subject} runs", f"chmod o-w {shown}")
    return ok(f"{subject} runs {shown}")


def _entry_point(subject: str, target: WakeTarget) -> Said:
    """Look whether the module can be found, by the first part of its name; nothing of it is imported."""
    entry = target.entry_point or ""
    top = entry.partition(":")[0].partition(".")[0]
    folder = target.directory or Path("/")
    if find_spec(top) is not None or (folder / top).is_dir() or (folder / f"{top}.py").is_file():
        return ok(f"{subject} is {printable(entry)}")
    return problem(
        f"{subject} is {printable(entry)}, and there is no module {printable(top)}",
        "install it for the worker's Python, or name its folder by `directory` in the target",
    )


async def resumers(site: Site) -> list[Said]:
    """Say whether the worker could start the resumers, and what they will not find there."""
    named, folder = site.settings.resumers, site.settings.resumers_directory
    if not named:
        return [ok("no resumers: a harness that gates its tools with the SDK is not woken from here")]
    if folder is not None and not folder.is_dir():
        return [
            problem(f"resumers run in {folder}, which is no folder", "make it, or correct WAKEGATE_RESUMERS_DIRECTORY")
        ]
    wrong = await site.imported()
    said = [
        problem(
            f"the resumer for {name}, {printable(entry)}, cannot be had: {wrong[name]}",
            "correct WAKEGATE_RESUMERS, name the module's folder by WAKEGATE_RESUMERS_DIRECTORY, install its framework"
            " for the worker's Python, or give the worker's user the files that the module reads",
        )
        if name in wrong
        else ok(f"{name} is resumed by {printable(entry)}")
        for name, entry in sorted(named.items())
    ]
    worker = deployment(site.settings).worker
    home = Path(access.home(None if worker is None else worker.uid))
    if access.status(home) is None:
        said.append(
            note(
                f"{home}, the home of the worker's user, is not there: a resumer finds nothing below ~",
                "give what a resumer reads, such as the instance's token, as a whole path",
            )
        )
    return said


def consumption(site: Site) -> list[Said]:
    """Say whether WAKEGATE_CONSUMPTION fits what is known of the providers; nobody is asked."""
    facts = site.store.facts
    providers = {each.provider for each in site.instances}
    known = frozenset() if facts is None else facts.consuming & providers
    return judge_consumption(site.settings.consumption, known, frozenset(providers - known))


def judge_consumption(mode: str, known: frozenset[str], others: frozenset[str]) -> list[Said]:
    """Say whether the setting fits the providers.

    Args:
        mode: `auto`, `always` or `never`.
        known: those that have shown that they know consumption.
        others: those that have not.
    """
    odd: list[Said] = []
    if mode == "never":
        odd = [
            warning(
                f"{provider} keeps which call has used an approval, and is never told",
                "leave WAKEGATE_CONSUMPTION out, or set it to auto or always",
            )
            for provider in sorted(known)
        ]
    elif mode == "always":
        odd = [
            note(
                f"nothing was consumed at {provider} yet; if it knows no consumption, nothing starts there",
                "ask whoever runs it, or set WAKEGATE_CONSUMPTION to auto",
            )
            for provider in sorted(others)
        ]
    return odd or [ok(f"approvals are consumed: {mode}; providers that know consumption: {len(known)}")]


def not_loaded(problems: tuple[str, ...]) -> list[Said]:
    """Say what is wrong with settings that cannot be used."""
    return [problem(printable(line), "correct it; docs/settings.md lists every setting") for line in problems]


def proxies(environ: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that name a proxy."""
    return sorted(name for name in environ if name.lower() in ("http_proxy", "https_proxy", "all_proxy"))


LOAD: Final = "settings.load"
"""The check whose failure ends the command."""

CHECKS: Final = (
    Check(LOAD, lambda _: [ok("every setting is known and well-formed")]),
    Check("settings.file", file),
    Check("settings.set", sources),
    Check("settings.tests", tests),
    Check("settings.tools", tools, limit_s=LIMIT_S + 10),
    Check("settings.needed", needed_tools, limit_s=LIMIT_S + 10),
    Check("settings.wake", wake),
    Check("settings.resumers", resumers, limit_s=resumer_probe.LIMIT_S + 10),
    Check("settings.consumption", consumption),
)
"""The command makes the first of them by loading the settings at all."""
