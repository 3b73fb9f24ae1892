"""A deployment: every step that makes the layout on this machine, or under another root."""

from collections.abc import Callable, Iterator
from pathlib import Path

from cryptography.fernet import Fernet

from wakegate_console import layout
from wakegate_console.installation import drop_ins, program, templates, unit_files
from wakegate_console.installation.accounts import HERE, Accounts
from wakegate_console.installation.ground import Ground
from wakegate_console.installation.steps import Found, Step
from wakegate_console.layout import Place, User
from wakegate_schema.settings import load_settings
from wakegate_schema.signing import SigningSecret

_IN_AN_IMAGE = "an image's secrets would be every machine's; run `wakegate init --system` on the machine itself"
_SEALED = (layout.RECEIVER_KEY, layout.WORKER_KEY)


def steps(root: Path) -> Iterator[Step]:
    """Give every step in its order: groups, users, places, and a look at the program.

    Args:
        root: `/` for this machine; another folder to build an image in, which gets no secrets.
    """
    accounts = Accounts(root)
    ground = Ground(root, accounts)
    for group in layout.GROUPS:
        yield _group(accounts, group)
    for user in layout.USERS:
        yield _user(accounts, user)
    for place in layout.PLACES:
        yield _place(ground, place, image=root != HERE)
    if root == HERE:
        for user in layout.USERS:
            yield _program(accounts, user)
        yield from _drop_ins(ground)


def _group(accounts: Accounts, name: str) -> Step:
    return Step("group", name, "", lambda: accounts.look_at_group(name), lambda: accounts.make_group(name))


def _user(accounts: Accounts, user: User) -> Step:
    what = f"{user.what}; group {user.group}, no home, no login"
    return Step("user", user.name, what, lambda: accounts.look_at_user(user), lambda: accounts.make_user(user))


def _place(ground: Ground, place: Place, *, image: bool) -> Step:
    content, fixed = _content(place.path)
    return Step(
        place.kind,
        str(place.path),
        f"{place.owner}:{place.group} {place.mode:04o}; {place.what}",
        lambda: ground.look(place, content() if fixed else None) or _lost(ground, place),
        lambda: ground.make(place, content()),
        _IN_AN_IMAGE if image and place.kind == "secret" else "",
    )


def _drop_ins(ground: Ground) -> Iterator[Step]:
    """Give a step for each drop-in that the settings ask for, and for each that lies there without need."""
    file = ground.at(layout.SETTINGS)
    if not file.is_file():
        return  # nothing was made, and then the store is on this machine
    settings = load_settings(file, {})
    for place in drop_ins.PLACES:
        wanted = drop_ins.drop_in(place, settings)
        if wanted is not None:
            yield _drop_in(ground, place, wanted.encode())
        elif ground.at(place.path).exists():
            unneeded = Found("is not needed: the settings name nothing that it is for; remove it")
            yield Step(place.kind, str(place.path), place.what, lambda found=unneeded: found, None)  # type: ignore[misc]


def _drop_in(ground: Ground, place: Place, content: bytes) -> Step:
    what = f"{place.owner}:{place.group} {place.mode:04o}; {place.what}"
    look, make = lambda: ground.look(place, content), lambda: ground.make(place, content)
    return Step(place.kind, str(place.path), what, look, make)


def _program(accounts: Accounts, user: User) -> Step:
    name = " ".join(program.command())
    look = lambda: program.look(accounts.uid(user.name), accounts.gid(user.group))  # noqa: E731
    return Step("program", name, f"{user.name} can run it", look, None, f"{user.name} is not there yet")


def _content(path: Path) -> tuple[Callable[[], bytes], bool]:
    """Return what a file holds at first, and whether it is to hold nothing else."""
    if path in _SEALED:
        return _key, False
    if path == layout.WAKE_SECRET:
        return _wake_secret, False
    if path == layout.SETTINGS:
        return lambda: templates.system().encode(), False
    if path == layout.TMPFILES:
        return lambda: unit_files.tmpfiles().encode(), True
    if path.parent == layout.UNITS:
        return lambda: unit_files.unit(path.name, program.command()).encode(), True
    return lambda: b"", False


def _key() -> bytes:
    return Fernet.generate_key() + b"\n"


def _wake_secret() -> bytes:
    return SigningSecret.generate().reveal().encode("ascii") + b"\n"


def _lost(ground: Ground, place: Place) -> Found | None:
    """Say that a key is lost which the store may need: a new one in its place would hide that."""
    store = ground.at(layout.STORE)
    if place.path in _SEALED and store.exists() and store.stat().st_size:
        return Found(
            f"is gone, and {layout.STORE} may hold what it sealed: put the key back from its backup; if there was"
            " never one here, move that store away and run this again"
        )
    return None
