"""What was seen of PostgreSQL under the store; made by `server`, which needs its driver."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wakegate_console.doctor.ways import Way

COMMIT_S: Final = 3
"""How long the commit that is timed may take, in seconds; a synchronous standby that is gone holds it up."""


@dataclass(frozen=True, slots=True)
class Standby:
    """A server that streams from this one."""

    name: str
    role: str | None
    """`sync`, `quorum`, `potential` or `async`; None for a login that may not see it."""


@dataclass(frozen=True, slots=True)
class ServerLook:
    """What came of looking at the server."""

    facts: Mapping[str, Any]
    """The row of the SQL block `server`."""
    way: Way
    """How it is connected to."""
    tls: bool
    pooled: bool
    """Whether something between hands out other sessions than those it shows."""
    skew: int
    """How far its clock is ahead of this host's, µs."""
    blur: int
    """How long it took to ask for that, µs."""
    standbys: Sequence[Standby]
    lacking: Sequence[str]
    """What the role may not do and should: `UPDATE on execution`."""
    commit_s: float | None
    """How long a commit took, in seconds; None for a standby."""
    confirmed: bool
    """Whether that commit came back without a warning."""
