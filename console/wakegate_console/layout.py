"""The layout of a deployment: its users, groups, paths, owners and modes, in one table.

`wakegate init --system` makes it, `wakegate doctor` compares with it, the units in `systemd/` name the same paths, and
tests hold all of them to it (DESIGN, "Who holds what"; docs/deployment.md).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

GROUP: Final = "wakegate"
"""Who may open the store and read the settings file: the two services."""
HARNESS_GROUP: Final = "wakegate-harness"
"""Who may connect to the control socket: every user that a harness runs as. Neither service needs to be in it."""
RECEIVER_USER: Final = "wakegate-receiver"
WORKER_USER: Final = "wakegate-worker"

ETC: Final = Path("/etc/wakegate")
SETTINGS: Final = ETC / "wakegate.toml"
CREDENTIALS: Final = ETC / "credentials"
"""Root's alone: systemd hands each unit copies of its own ones (`LoadCredential=`), named as the files are."""
RECEIVER_KEY: Final = CREDENTIALS / "receiver_key"
WORKER_KEY: Final = CREDENTIALS / "worker_key"
WAKE_SECRET: Final = CREDENTIALS / "wake_secret"
TOOLS: Final = ETC / "tools"
"""The worker's working directory, which imports look into first: nobody but root may write there."""
STATE: Final = Path("/var/lib/wakegate")
STORE: Final = STATE / "wakegate.db"
RUNTIME: Final = Path("/run/wakegate")
CONTROL: Final = RUNTIME / "control.sock"
TMPFILES: Final = Path("/etc/tmpfiles.d/wakegate.conf")
UNITS: Final = Path("/etc/systemd/system")
UNIT_NAMES: Final = ("wakegate-receiver.socket", "wakegate-receiver.service", "wakegate-worker@.service")

Kind = Literal["directory", "file", "secret"]


@dataclass(frozen=True, slots=True)
class User:
    """A user that a service runs as: it cannot log in and has no home."""

    name: str
    group: str
    """Its only one."""
    what: str


@dataclass(frozen=True, slots=True)
class Place:
    """Something that lies in a deployment's file system."""

    path: Path
    kind: Kind
    """A secret is made by `init`, and never in an image: an image's secrets would be every machine's."""
    owner: str
    group: str
    mode: int
    """Its permission bits, exactly."""
    what: str


GROUPS: Final = (GROUP, HARNESS_GROUP)
USERS: Final = (
    User(RECEIVER_USER, GROUP, "wakegate receiver"),
    User(WORKER_USER, GROUP, "wakegate worker"),
)
PLACES: Final = (
    Place(ETC, "directory", "root", GROUP, 0o750, "what the operator sets"),
    Place(SETTINGS, "file", "root", GROUP, 0o640, "the settings; no secret is in it"),
    Place(CREDENTIALS, "directory", "root", "root", 0o700, "the secrets; systemd hands each service its own"),
    Place(RECEIVER_KEY, "secret", "root", "root", 0o600, "seals signing secrets; for the receiver alone"),
    Place(WORKER_KEY, "secret", "root", "root", 0o600, "seals instance credentials; for the worker alone"),
    Place(WAKE_SECRET, "secret", "root", "root", 0o600, "signs HTTP wakes; for the worker alone"),
    Place(TOOLS, "directory", "root", GROUP, 0o750, "your tool modules; the worker looks here first"),
    Place(STATE, "directory", RECEIVER_USER, GROUP, 0o2770, "the store, its WAL and its locks"),
    Place(STORE, "file", RECEIVER_USER, GROUP, 0o660, "the store; the first service fills it"),
    Place(RUNTIME, "directory", RECEIVER_USER, HARNESS_GROUP, 0o2750, "the control socket"),
    Place(TMPFILES, "file", "root", "root", 0o644, "makes the socket's directory at every boot"),
    *(Place(UNITS / name, "file", "root", "root", 0o644, "systemd unit") for name in UNIT_NAMES),
)
"""Everything that `init --system` makes, each after the directory it lies in."""


def place(path: Path) -> Place:
    """Return what the table says of a path. Raises KeyError for one that is not in it."""
    for each in PLACES:
        if each.path == path:
            return each
    raise KeyError(path)
