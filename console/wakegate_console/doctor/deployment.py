"""The deployment: as whom the services run here, and where their keys lie (DESIGN, "Who holds what")."""

from dataclasses import dataclass
from pathlib import Path

from wakegate_console import layout
from wakegate_console.doctor import access
from wakegate_console.doctor.access import User
from wakegate_schema.settings import Settings


@dataclass(frozen=True, slots=True)
class Deployment:
    """Who runs what, as far as it can be seen."""

    receiver: User | None
    worker: User | None
    receiver_key: Path
    worker_key: Path
    laid_out: bool = False
    """Whether it is one that `wakegate init --system` makes: its users are there, and the store's folder is theirs."""
    tools: Path | None = None
    """Where the worker runs, and so looks for its tools modules first; None for wherever this runs."""

    @property
    def separate(self) -> bool:
        """Whether the services are known to be two users'."""
        return self.receiver is not None and self.worker is not None and self.receiver.uid != self.worker.uid

    @property
    def users(self) -> list[tuple[str, User]]:
        """The services and their users, one of each where both are one user's."""
        found = [("the receiver", self.receiver), ("the worker", self.worker)]
        return [(what, who) for what, who in found if who is not None]


def deployment(settings: Settings) -> Deployment:
    """Return who runs the services: the layout's users, or the owners of the two keys."""
    keys = settings.receiver_key_path.absolute(), settings.worker_key_path.absolute()
    config = settings.config_file
    if settings.store.file is not None:
        folder = access.status(settings.store.file.absolute().parent)
    else:  # the layout's own folder says nothing of a store in PostgreSQL, unless the layout's settings name it
        folder = access.status(layout.STATE) if config is not None and config.path == layout.SETTINGS else None
    receiver, worker = access.named(layout.RECEIVER_USER), access.named(layout.WORKER_USER)
    if receiver is not None and worker is not None and folder is not None and folder.st_uid == receiver.uid:
        tools = layout.TOOLS if access.status(layout.TOOLS) is not None else None
        return Deployment(receiver, worker, *keys, laid_out=True, tools=tools)
    return Deployment(_owner(keys[0]), _owner(keys[1]), *keys)


def _owner(path: Path) -> User | None:
    found = access.status(path)
    return None if found is None else access.user(found.st_uid, found.st_gid)
