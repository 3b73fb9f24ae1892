"""The users: whose the files are, and that both services, and nobody else, can use them."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wakegate_console import layout
from wakegate_console.doctor import access
from wakegate_console.doctor.access import ENTER, READ, WRITE, User
from wakegate_console.doctor.check import Check
from wakegate_console.doctor.deployment import Deployment, deployment
from wakegate_console.doctor.finding import Said, note, ok, problem, warning
from wakegate_console.doctor.site import Site
from wakegate_console.installation import drop_ins
from wakegate_console.text import printable

BESIDE: Final = ("", "-wal", "-shm", "-turn", "-next", "-open")
"""The ends of the names of the store's files that both services write."""


def me(site: Site) -> Iterator[Said]:
    """Say who looks."""
    uid = os.geteuid()
    found = deployment(site.settings)
    if uid == 0 and any(who.uid != 0 for _, who in found.users):
        yield note(
            "this runs as root, who can read what the services cannot",
            "users.files judges by owners and modes instead",
        )
    else:
        yield ok(f"this runs as {access.user_name(uid)}")


def folder(site: Site) -> Iterator[Said]:
    """Look at the folder of the store."""
    file = site.settings.store.file
    if file is None:
        return
    path = file.absolute().parent
    status = access.status(path)
    if status is None:
        yield problem(f"the folder {path} is not there, or cannot be seen", "make it, or correct WAKEGATE_DATABASE")
        return
    yield from judge_folder(path, status, deployment(site.settings))


def judge_folder(path: Path, status: os.stat_result, found: Deployment) -> Iterator[Said]:
    """Say whether both services can make files in the folder, for each other, and nobody else."""
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o002:
        yield problem(f"everybody may put files in {path} (mode {mode:04o})", f"chmod o-w {path}")
        return
    barred = [f"{what} ({who.name})" for what, who in found.users if not who.may(status, READ | WRITE | ENTER)]
    if barred:
        yield problem(
            f"{' and '.join(barred)} may not write in {path} ({_whose(status)})",
            f"have it belong to a group that both services are in, and: chmod 2770 {path}",
        )
    elif found.separate and not mode & stat.S_ISGID:
        yield warning(
            f"files that are made in {path} get their maker's group, and may lock the other service out",
            f"chmod g+s {path}",
        )
    else:
        yield ok(f"{path} is {_whose(status)}")


def files(site: Site) -> Iterator[Said]:
    """Look at the store's files: who may use each."""
    file = site.settings.store.file
    if file is None:
        return
    real = file.absolute().resolve()
    found = deployment(site.settings)
    judged: list[Said] = []
    for end in BESIDE:
        path = real.with_name(f"{real.name}{end}")
        status = access.status(path)
        if status is not None:
            judged += judge_file(path, status, found)
    if judged:
        yield from judged
    elif access.status(real) is not None:
        who = " and ".join(dict.fromkeys(user.name for _, user in found.users)) or "their owner"
        yield ok(f"the store's files can be used by {who}, and by nobody outside their group")


def judge_file(path: Path, status: os.stat_result, found: Deployment) -> Iterator[Said]:
    """Say what is wrong with the owner, group and mode of one of the store's files; nothing where nothing is."""
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o007:
        yield problem(
            f"{path} can be used by everybody (mode {mode:04o}): saved calls and their arguments are in the store",
            f"chmod o-rwx {path}",
        )
    for what, who in found.users:
        if not who.may(status, READ | WRITE):
            yield problem(
                f"{path} locks {what} ({who.name}) out: it is {_whose(status)}",
                f"give it the folder's group and mode 0660: chgrp --reference={path.parent} {path} && chmod 660 {path}",
            )


def control_socket(site: Site) -> Iterator[Said]:
    """Look at the control socket, if it is there."""
    address = site.settings.control_address
    if isinstance(address, Path):
        address = address.absolute()
    else:
        yield ok(f"the control listener is {address}: whoever is on this machine can connect, and needs a token")
        return
    try:
        status = address.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        yield note(f"the control socket {address} cannot be seen: {error.strerror}", "run this as root")
        return
    mode = stat.S_IMODE(status.st_mode)
    whose = _whose(status)
    if not stat.S_ISSOCK(status.st_mode):
        yield problem(f"{address} is no socket", "move it away; the receiver makes its own")
    elif mode & 0o007:
        yield problem(f"everybody may use the control socket {address} ({whose})", f"chmod 660 {address}")
    elif mode & 0o660 != 0o660:
        yield warning(f"the control socket {address} keeps its group out ({whose})", "restart the receiver")
    else:
        yield ok(f"the control socket {address} is {whose}")


def harnesses(site: Site) -> Iterator[Said]:
    """Look at the harness tables: that each names a user, instances that exist, and can get at the control socket."""
    tables = site.settings.harness
    if not tables:
        yield ok("no [harness.NAME] tables: only the receiver's own user may use the control API")
        return
    facts = site.store.facts
    known = {name for each in site.instances for name in (each.name, each.instance_id)} if facts is not None else None
    for name, table in tables.items():
        wrong = [
            *_asks(site, name, table.uid),
            *_goes_around(site, name, table.uid),
            *_instances(name, table.instances, known),
        ]
        yield from wrong or [ok(f"harness {name}: {', '.join(map(printable, table.instances))}")]


def laid_out(site: Site) -> Iterator[Said]:
    """Compare a deployment with the layout that `wakegate init --system` makes."""
    config = site.settings.config_file
    if not deployment(site.settings).laid_out or config is None or config.path != layout.SETTINGS:
        return
    wanted = [place for place in drop_ins.PLACES if drop_ins.drop_in(place, site.settings) is not None]
    wrong = [said for place in (*layout.PLACES, *wanted) for said in judge_place(place)]
    yield from wrong or [ok("every file and folder is as `wakegate init --system` makes it")]


def judge_place(place: layout.Place) -> Iterator[Said]:
    """Say in what a place differs from the layout."""
    try:
        status = place.path.stat()
    except FileNotFoundError:
        yield warning(f"{place.path} is not there ({place.what})", "wakegate init --system")
        return
    except OSError as error:
        yield note(f"{place.path} cannot be seen: {error.strerror}", "run this as root")
        return
    found = (access.user_name(status.st_uid), access.group_name(status.st_gid), stat.S_IMODE(status.st_mode))
    wanted = (place.owner, place.group, place.mode)
    if found != wanted:
        yield warning(
            f"{place.path} is {found[0]}:{found[1]}, mode {found[2]:04o}; it should be {wanted[0]}:{wanted[1]},"
            f" {wanted[2]:04o}",
            f"chown {wanted[0]}:{wanted[1]} {place.path} && chmod {wanted[2]:o} {place.path}",
        )


CHECKS: Final = (
    Check("users.me", me),
    Check("users.folder", folder),
    Check("users.files", files),
    Check("users.control", control_socket),
    Check("users.harnesses", harnesses),
    Check("users.layout", laid_out),
)


def _whose(status: os.stat_result) -> str:
    """Return owner, group and mode for people."""
    owner, group = access.user_name(status.st_uid), access.group_name(status.st_gid)
    return f"{owner}:{group}, mode {stat.S_IMODE(status.st_mode):04o}"


def _asks(site: Site, name: str, uid: int | None) -> Iterator[Said]:
    """Look whether a harness's user is there, and can connect."""
    if uid is None:
        return
    control = site.settings.control_address
    if not isinstance(control, Path):
        yield problem(
            f"harness {name} is known by its user alone, and {control} is TCP, where users are not known",
            f"give it a token: wakegate harness add {name} --token-file FILE",
        )
        return
    who = access.user(uid)
    if who.name.startswith("uid "):
        yield warning(f"harness {name}: there is no user with the number {uid} here", "make it, or correct the table")
    yield from _connects(name, who, control)


def _goes_around(site: Site, name: str, uid: int | None) -> Iterator[Said]:
    """Look whether a harness's user can do without the control API: open the store itself, or read a key."""
    if uid is None:
        return
    who, found = access.user(uid), deployment(site.settings)
    for path in (*_ways_in(site), found.receiver_key, found.worker_key):
        status = access.status(path)
        if status is None or not (who.may(status, READ) and who.reaches(path)):
            continue
        what = f"harness {name} ({who.name}) can read {path} itself, so the control API keeps nothing from it"
        if found.separate:
            yield warning(what, "run it as another user, in neither service's group")
        else:
            yield note(what, "fine for development; run it as another user than the services otherwise")
        return


def _ways_in(site: Site) -> list[Path]:
    """Return the files that open the store to whoever can read them: itself, or PostgreSQL's password."""
    settings = site.settings
    if settings.store.file is not None:
        return [settings.store.file.absolute()]
    return [settings.database_password_file.absolute()] if settings.database_password_file is not None else []


def _connects(name: str, who: User, control: Path) -> Iterator[Said]:
    try:
        status, reached = control.stat(), who.reaches(control)
    except OSError:
        return  # it is not there, or cannot be seen: users.control and store.receiver tell of it
    if not (reached and who.may(status, READ | WRITE)):
        group = access.group_name(status.st_gid)
        if reached and status.st_gid in who.groups:
            what = f"chmod 660 {control}: the user is in its group {group}, which may not use it"
        else:
            what = f"put the user in the group {group}, which must be able to enter every folder on the way"
        yield problem(f"harness {name} ({who.name}) cannot connect to {control}", what)


def _instances(name: str, wanted: tuple[str, ...], known: set[str] | None) -> Iterator[Said]:
    if known is None:
        return
    for each in wanted:
        if each not in known:
            yield warning(
                f"harness {name}: there is no instance {printable(each)}",
                "provision it, or correct the table; `wakegate instance list` names them",
            )
