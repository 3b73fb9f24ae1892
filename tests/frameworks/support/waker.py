"""What takes notifications and wakes a harness: the two kinds that stories are told with."""

from pathlib import Path
from typing import NamedTuple, Protocol

from frameworks.support.programs import Programs


class Instance(NamedTuple):
    """The instance at the provider whose notifications a waker takes."""

    instance_id: str
    token: str


class At(Protocol):
    """Where a waker finds the provider."""

    @property
    def url(self) -> str:
        """Its base URL."""

    @property
    def token_file(self) -> Path:
        """Holds its provisioner token."""

    def delivered(self, instance_id: str) -> bool:
        """Whether every notification for an instance is acknowledged as often as it is wanted."""

    def notified(self, instance_id: str) -> int:
        """How many notifications there are for an instance."""


class Waker(Protocol):
    """Some lives on one folder, each from `begin` to `kill`."""

    NAME: str
    """As the observations name it."""

    def __init__(self, programs: Programs, provider: At) -> None: ...

    async def begin(self) -> Instance:
        """Take notifications from now on; the first time, provision the instance."""

    async def kill(self) -> None:
        """Kill all its processes."""

    async def fell(self) -> None:
        """Go on after a resumed run was killed: by itself, or by a new life if it was killed with it."""

    async def woken(self, request_id: str) -> None:
        """Wait until a wake for this request is over, whatever came of it."""

    async def idle(self) -> bool:
        """Whether nothing more will ever come of all that it was told."""
