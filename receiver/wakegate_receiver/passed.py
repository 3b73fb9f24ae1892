"""What the service manager listens on for the receiver, told apart and held against the settings."""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wakegate_schema.addresses import Address
from wakegate_schema.passed_sockets import PassedSocket, PassedSocketUnusable
from wakegate_schema.settings import Settings


@dataclass(slots=True)
class Given:
    """The sockets the receiver need not bind itself; None for one that it must."""

    public: socket.socket | None = None
    control: socket.socket | None = None
    metrics: socket.socket | None = None


def sort_out(passed: Sequence[PassedSocket], settings: Settings) -> Given:
    """Return which passed socket is for what.

    One at the address of `WAKEGATE_CONTROL` or `WAKEGATE_METRICS_LISTEN` is for that; another on TCP takes webhooks,
    and must be where `WAKEGATE_LISTEN` says, if that is set.

    Raises:
        PassedSocketUnusable: one of them disagrees with the settings, or nobody knows what it is for.
    """
    given = Given()
    for each in passed:
        if given.control is None and _agree(settings.control_address, each.at):
            given.control = each.socket
        elif given.metrics is None and settings.metrics_listen and _agree(settings.metrics_listen, each.at):
            given.metrics = each.socket
        elif isinstance(each.at, Path):
            raise _disagreement("WAKEGATE_CONTROL", settings.control_address, each.at)
        elif "listen" in settings.model_fields_set and not _agree(settings.listen, each.at):
            raise _disagreement("WAKEGATE_LISTEN", settings.listen, each.at)
        elif given.public is not None:
            raise PassedSocketUnusable(
                f"WAKEGATE_LISTEN: the service manager passed a second TCP socket, {each.at}; leave it out of the"
                " socket unit, or name it by WAKEGATE_CONTROL or WAKEGATE_METRICS_LISTEN"
            )
        else:
            given.public = each.socket
    return given


def _agree(said: Path | Address, passed: Path | Address) -> bool:
    """Return whether a setting means where a socket is; port 0 means any."""
    if isinstance(said, Path) or isinstance(passed, Path):
        return type(said) is type(passed) and os.path.realpath(str(said)) == os.path.realpath(str(passed))
    if said.port not in (0, passed.port):
        return False
    try:
        found = socket.getaddrinfo(said.host, passed.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return False
    return passed.host in {where[0] for *_, where in found}


def _disagreement(setting: str, said: Path | Address, passed: Path | Address) -> PassedSocketUnusable:
    return PassedSocketUnusable(
        f"{setting}: is {said}, and the service manager passed a socket at {passed}; make the setting and"
        " ListenStream= in the socket unit agree"
    )
