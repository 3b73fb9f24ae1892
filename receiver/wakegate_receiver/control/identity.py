"""Identity: which harness asks, by the user at the other end of the socket or by a bearer token."""

import os
import re
import socket
import struct
from dataclasses import dataclass
from typing import Final

from multidict import CIMultiDictProxy

from wakegate_receiver.control.answers import ControlRefused
from wakegate_schema.calls.scope import EVERYTHING, Scope
from wakegate_schema.harness_tables import OVERFLOW_UID, Harness, Harnesses

_BEARER: Final = re.compile(r"bearer +([\x21-\x7e]{1,4096})", re.IGNORECASE)
_PEER: Final = struct.Struct("iII")


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks."""

    scope: Scope
    name: str | None
    """The harness's name; None for the receiver's own user, whom no table need name."""
    harness: Harness | None
    """Its table as it was read."""


class Identities:
    """Tells who asks. Every question looks at the harness tables as they are now."""

    def __init__(self, harnesses: Harnesses, own_uid: int | None = None) -> None:
        """Take the tables, and the user who may open the store anyway: this process's own unless given."""
        self._harnesses = harnesses
        self._own_uid = os.geteuid() if own_uid is None else own_uid

    def of(self, headers: CIMultiDictProxy[str], uid: int | None) -> Visitor:
        """Return who asks.

        Args:
            headers: the request's; a bearer token says more than the user does.
            uid: the peer's user on a Unix socket, None on TCP.

        Raises:
            ControlRefused: `unauthenticated`, `harness_unknown`.
            HarnessesUnreadable: the settings file cannot be understood.
        """
        given = headers.getall("Authorization", ())
        if given:
            return self._by_token(given)
        if uid is None:
            raise ControlRefused("unauthenticated", "This address wants `Authorization: Bearer TOKEN`.")
        harness = self._harnesses.by_uid(uid)
        if harness is not None:
            return _visitor(harness)
        if uid == self._own_uid and uid != OVERFLOW_UID:  # under that one the kernel shows whom it cannot name
            return Visitor(EVERYTHING, None, None)
        raise ControlRefused(
            "harness_unknown",
            f"No harness has uid {uid}; the operator makes one by"
            f" `wakegate harness add NAME --instance INSTANCE --uid {uid}`.",
        )

    def _by_token(self, given: tuple[str, ...] | list[str]) -> Visitor:
        found = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
        if found is None:
            self._harnesses.current()  # a file that cannot be read is told of in the same way to everybody
            raise ControlRefused("unauthenticated", "The Authorization header is not one `Bearer TOKEN`.")
        harness = self._harnesses.by_token(found[1])
        if harness is None:
            raise ControlRefused("unauthenticated", "The bearer token is no harness's.")
        return _visitor(harness)


def peer_uid(connection: socket.socket) -> int | None:
    """Return the user who connected to a Unix socket, as the kernel says it; None on any other."""
    if connection.family != socket.AF_UNIX:
        return None
    _, uid, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(uid)


def _visitor(harness: Harness) -> Visitor:
    return Visitor(Scope(f"harness:{harness.name}", harness.instances), harness.name, harness)
