"""Sharing: several receiver processes on one public socket. Each is handed it by the command that keeps them running.

The first of them serves harnesses, health and metrics too; what it does not count itself, it reads from the others.
"""

import json
import os
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Final, Self

from wakegate_receiver.metrics.tally import Tally
from wakegate_schema.passed_sockets import PassedSocket, passed_socket

VARIABLE: Final = "_WAKEGATE_SHARE"
"""The environment variable that says of a process which one it is, and what it was handed."""


@dataclass(frozen=True, slots=True)
class Share:
    """One process's part. Descriptors are those that it inherits."""

    number: int
    """Which process it is, from 1 on."""
    sockets: tuple[int, ...]
    """Sockets that listen already: the public one; and for the first process what else was passed in."""
    tallies: tuple[int, ...]
    """The files of all processes' counts, in their order."""

    @classmethod
    def take(cls, environ: MutableMapping[str, str]) -> Self | None:
        """Return this process's part, and take it out of the environment: child processes have none.

        None for a receiver that runs by itself.
        """
        text = environ.pop(VARIABLE, None)
        if text is None:
            return None
        number, sockets, tallies = json.loads(text)
        for descriptor in tallies:
            os.set_inheritable(descriptor, False)
        return cls(number, tuple(sockets), tuple(tallies))

    @property
    def name(self) -> str:
        """What its log lines call the process."""
        return f"receiver-{self.number}"

    def environment(self) -> dict[str, str]:
        """Return what tells a process of its part."""
        return {VARIABLE: json.dumps([self.number, self.sockets, self.tallies])}

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What the process inherits."""
        return (*self.sockets, *self.tallies)

    @property
    def leads(self) -> bool:
        """Whether this process serves more than webhooks."""
        return self.number == 1

    def passed(self) -> list[PassedSocket]:
        """Return the sockets. Raises `PassedSocketUnusable`."""
        return [passed_socket(number, f"process {self.number}") for number in self.sockets]

    def tally(self) -> Tally:
        """Return where the processes' counts are kept."""
        return Tally(self.tallies, self.number)
