"""The message of a wake: what a harness is told, the same over HTTP and to a program. Pure."""

import json
from dataclasses import dataclass, field, replace
from typing import Any, Final

from wakegate_schema import timestamps
from wakegate_schema.records import Execution, Wake
from wakegate_schema.resolution import Resolution, resolution_of
from wakegate_schema.states import State

GROUP_LIMIT: Final = 512 * 1024
"""Bytes of JSON in the resolutions of a group, at most: under what common servers take (1 MiB)."""
TYPES: Final = {State.PERMITTED: "execution.permitted", State.IN_DOUBT: "execution.in_doubt"}
RESOLVED: Final = "execution.resolved"
GROUP: Final = "group.resolved"


@dataclass(slots=True)
class GroupTold:
    """What a group's wake tells, gathered call by call and never larger than the limit.

    Over it, or when one of the results is nothing that JSON can carry, every `result` is left out; when there are so
    many calls that this does not help, every resolution.
    """

    group: str = ""
    instance_id: str = ""
    count: int = 0
    left_out: str | None = None
    """None, `results` or `resolutions`."""
    _resolutions: list[Resolution] = field(default_factory=list, repr=False)
    _size: int = 0

    def add(self, execution: Execution, resolution_id: str) -> None:
        """Take another call, in the order in which they were saved."""
        resolution = resolution_of(execution, resolution_id)
        self.group, self.instance_id = resolution.group or "", resolution.instance_id
        self.count += 1
        if self.left_out == "resolutions":
            return
        if not self._fits(resolution) and self.left_out is None:
            self._leave_results_out()

    def _fits(self, resolution: Resolution) -> bool:
        """Take a resolution if there is room for it and JSON can carry it; too many of them leave all of them out."""
        kept = resolution if self.left_out is None else replace(resolution, result=None)
        self._resolutions.append(kept)
        try:
            self._size += len(_encode(kept.to_json())) + 1
        except ValueError:
            return False
        if self._size <= GROUP_LIMIT:
            return True
        if self.left_out is not None:
            self._resolutions, self.left_out = [], "resolutions"
        return False

    def _leave_results_out(self) -> None:
        taken, self._resolutions, self._size, self.left_out = self._resolutions, [], 0, "results"
        for each in taken:
            if not self._fits(each):
                return

    def to_json(self) -> dict[str, Any]:
        """Return the message's `data`."""
        return {
            "group": self.group,
            "instance_id": self.instance_id,
            "count": self.count,
            "left_out": self.left_out,
            "resolutions": [resolution.to_json() for resolution in self._resolutions],
        }


def message_of(wake: Wake, told: Execution | GroupTold) -> bytes:
    """Return the JSON that a wake tells: `type`, `timestamp` of the change, `data`.

    Args:
        wake: what is owed.
        told: the execution as it is now; of a group's wake, everything that belongs to the group.

    Raises:
        ValueError: the stored result of the one execution holds what JSON cannot (a number too large for a float).
    """
    if isinstance(told, GroupTold):
        kind, data = GROUP, told.to_json()
    else:
        kind = TYPES.get(wake.to_state, RESOLVED)
        data = resolution_of(told, wake.wake_id, wake.to_state).to_json()
    return _encode({"type": kind, "timestamp": timestamps.render(wake.created_at), "data": data})


def _encode(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
