"""The keys and other secrets: there, whole, the right ones, and nobody else's to read."""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from wakegate_console.doctor import access
from wakegate_console.doctor.check import Check
from wakegate_console.doctor.deployment import deployment
from wakegate_console.doctor.finding import Said, counted, note, ok, problem, warning
from wakegate_console.doctor.site import Site
from wakegate_schema.keys import KeyFileError, aside_of, load_key
from wakegate_schema.sealing import Sealer
from wakegate_schema.secret_files import SecretFileError
from wakegate_schema.service_keys import Sealed
from wakegate_schema.store.sqlite.backup_mark import is_marked

_MOST_FILES: Final = 1000
"""How many files of a folder are looked at."""


def receiver(site: Site) -> Iterator[Said]:
    """Look at the receiver's key."""
    facts = site.store.facts
    sealed = None if facts is None else Sealed.secrets(facts.registrations)
    named = site.settings.receiver_key_file is not None
    yield from _key(deployment(site.settings).receiver_key, "receiver_key_file", sealed, named=named)


def worker(site: Site) -> Iterator[Said]:
    """Look at the worker's key."""
    facts = site.store.facts
    sealed = None if facts is None else Sealed.credentials(facts.instances)
    named = site.settings.worker_key_file is not None
    yield from _key(deployment(site.settings).worker_key, "worker_key_file", sealed, named=named)


def separate(site: Site) -> Iterator[Said]:
    """Say whether the separation of the services is a fact or a habit (DESIGN, "Who holds what")."""
    found = deployment(site.settings)
    if found.receiver is None or found.worker is None:
        return
    if found.separate:
        yield ok(f"the receiver's key is {found.receiver.name}'s alone, the worker's {found.worker.name}'s")
        yield from _replaceable(found.receiver_key, found.worker_key)
        return
    yield note(
        f"both keys are {found.receiver.name}'s: that the services do not read each other's is a habit, not a fact",
        "fine for development; `wakegate init --system` makes a user for each",
    )


def secrets(site: Site) -> Iterator[Said]:
    """Look at the modes of the other files that hold secrets."""
    settings = site.settings
    files: Mapping[str, Path | None] = {
        "wake_secret_file": settings.wake_secret_path,
        "provider_key_file": settings.provider_key_path,
        "provider_provisioner_token_file": settings.provider_provisioner_token_path,
        "tls_key_file": settings.tls_key_file,
        "database_password_file": settings.database_password_file,
        "queue_password_file": settings.queue_password_file,
    }
    seen = 0
    for name, path in files.items():
        if path is None or (found := access.status(path)) is None:
            if getattr(settings, name) is not None:
                yield problem(f"{path} ({name}) is not there", "put it there, or correct the setting")
            continue
        seen += 1
        yield from _mode(path.absolute(), found, name)
    if not seen:
        yield ok("no other secrets are there")


def backups(site: Site) -> Iterator[Said]:
    """Look for backups that lie beside the keys that open them."""
    found = deployment(site.settings)
    folders = {path.absolute().parent for path in (found.receiver_key, found.worker_key) if access.status(path)}
    beside = sorted(file for folder in folders for file in _backups(folder))
    for file in beside:
        yield warning(
            f"{file} is a copy of the store, beside the keys that open its secrets",
            "keep backups elsewhere, on another machine best: whoever gets the folder has both",
        )
    if not beside:
        yield ok("no copy of the store lies beside the keys")


def old(site: Site) -> Iterator[Said]:
    """Tell of keys that are out of use and still there."""
    found = deployment(site.settings)
    for path in (found.receiver_key, found.worker_key):
        aside = aside_of(path)
        status = access.status(aside)
        if status is None:
            continue
        yield note(
            f"{aside} holds keys that `wakegate db reseal` took out of use",
            "delete it when no backup is left that was made before",
        )
        yield from (each for each in _mode(aside, status, "keys out of use") if each.verdict != "ok")


CHECKS: Final = (
    Check("keys.receiver", receiver),
    Check("keys.worker", worker),
    Check("keys.separate", separate),
    Check("keys.secrets", secrets),
    Check("keys.backups", backups),
    Check("keys.old", old),
)


def _key(path: Path, setting: str, sealed: Sealed | None, *, named: bool) -> Iterator[Said]:
    live = () if sealed is None else sealed.live
    found = access.status(path)
    if found is None:
        yield _missing(path, len(live), named=named)
        return
    modes = [each for each in _mode(path, found, setting) if each.verdict != "ok"]
    if modes:
        yield from modes
        return
    if not os.access(path, os.R_OK):
        yield note(
            f"{path} is {access.user_name(found.st_uid)}'s alone (mode {stat.S_IMODE(found.st_mode):04o}), so it is not"
            " known whether it opens what it sealed",
            f"run this as root, or as {access.user_name(found.st_uid)}",
        )
        return
    try:
        sealer = load_key(path, setting)
    except (KeyFileError, SecretFileError) as error:
        yield problem(str(error), "put the right key there, from its backup")
        return
    yield judge_opening(path, sealer, live)


def judge_opening(path: Path, sealer: Sealer, live: tuple[bytes, ...]) -> Said:
    """Say whether a key opens what is sealed under it."""
    closed = sum(not sealer.opens(each) for each in live)
    if closed:
        return problem(
            f"{path} does not open {closed} of {counted(len(live), 'value')} that {'is' if len(live) == 1 else 'are'}"
            " sealed under it",
            "put the right key there, from its backup; an older key goes at the file's end",
        )
    if not all(map(sealer.is_newest, live)):
        return note(f"{path} opens everything, some of it by an older key", "finish it: wakegate db reseal")
    return ok(
        f"{path} opens {counted(len(live), 'sealed value')}" if live else f"{path} is there; nothing is sealed yet"
    )


def _missing(path: Path, live: int, *, named: bool) -> Said:
    if live:
        return problem(
            f"{path} is not there, and {counted(live, 'value')} in the store {'is' if live == 1 else 'are'} sealed"
            " under it",
            "put it back from its backup; without it every instance has to be provisioned anew",
        )
    if named:
        return problem(f"{path} is not there, and a setting names it", "make it (docs/settings.md), or leave it unset")
    return note(f"{path} is not there yet", "its service makes it when it first starts")


def _mode(path: Path, status: os.stat_result, what: str) -> Iterator[Said]:
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        yield problem(f"{path} ({what}) is no file", "put the file there")
    elif mode & 0o077 and not _guarded(path):
        yield problem(
            f"{path} ({what}) can be used by others than {access.user_name(status.st_uid)} (mode {mode:04o})",
            f"chmod 600 {path}, and replace what it holds if others may have read it",
        )
    else:
        yield ok(f"{path} ({what}) is {access.user_name(status.st_uid)}'s alone")


def _guarded(path: Path) -> bool:
    """Say whether systemd guards the folder instead."""
    named = os.environ.get("CREDENTIALS_DIRECTORY", "")
    return Path(named).is_absolute() and path.resolve().is_relative_to(Path(named).resolve())


def _replaceable(*paths: Path) -> Iterator[Said]:
    """Tell of keys that somebody else may put another file in the place of."""
    for path in paths:
        status, folder = access.status(path), access.status(path.absolute().parent)
        if status is None or folder is None or folder.st_mode & stat.S_ISVTX:
            continue
        if (folder.st_mode & 0o022 and folder.st_uid != status.st_uid) or folder.st_mode & 0o002:
            yield note(
                f"others than {access.user_name(status.st_uid)} may put another file in the place of {path}",
                "keep each key in a folder that only its user, or root, may write",
            )


def _backups(folder: Path) -> Iterator[Path]:
    """Yield the copies of a store that lie in a folder, as far as this user can see them."""
    try:
        files = [Path(entry.path) for entry in os.scandir(folder) if entry.is_file()][:_MOST_FILES]
    except OSError:
        return
    for file in files:
        if ("-replaced-" in file.name and not file.name.endswith(("-wal", "-shm", "-journal"))) or (
            os.access(file, os.R_OK) and _is_backup(file)
        ):
            yield file


def _is_backup(file: Path) -> bool:
    try:
        return is_marked(file)
    except OSError:
        return False
