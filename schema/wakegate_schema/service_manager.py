"""The service manager: tells systemd how this service is (sd_notify(3), sd_watchdog_enabled(3))."""

import os
import re
import socket
from collections.abc import MutableMapping
from typing import Final, Self

from wakegate_schema.loggers import logger

SEND_S: Final = 0.5
"""How long a message waits for a manager that does not read, in seconds."""

_MICRO: Final = 1_000_000
_WHOLE: Final = re.compile(r"[0-9]{1,15}")
_STATUS_LIMIT: Final = 200

_log = logger("wakegate_schema")


class ServiceManager:
    """The way to the service manager. Without one nothing is sent; whatever goes wrong here reaches no service."""

    def __init__(self, address: str | None = None, watchdog_s: float | None = None) -> None:
        """Take what `take` finds.

        Args:
            address: the manager's datagram socket: a path, or an abstract name after `@`; None for no manager.
            watchdog_s: seconds within which it wants to hear that the service lives; None if it does not ask.
        """
        self._address = address if address and address[0] in "/@" and len(address) > 1 else None
        self.watchdog_s = watchdog_s if self.listens else None
        """Seconds without `alive` after which the service is killed and started anew; None for never."""

    @classmethod
    def take(cls, environ: MutableMapping[str, str]) -> Self:
        """Return the manager that the environment names, and take it out of there: child processes do not speak.

        Args:
            environ: `os.environ`, or a copy of it.
        """
        address = environ.pop("NOTIFY_SOCKET", None)
        period, process = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", None)
        asked = process in (None, str(os.getpid())) and _WHOLE.fullmatch(period) is not None and int(period) > 0
        return cls(address, int(period) / _MICRO if asked else None)

    @property
    def listens(self) -> bool:
        """Whether there is a manager that can be spoken to."""
        return self._address is not None

    def ready(self, status: str) -> None:
        """Say that the service does its work now; `status` is one line for a person."""
        self._send("READY=1", _status(status))

    def stopping(self, status: str, within: float) -> None:
        """Say that the service stops, and within how many seconds: systemd waits for that long at the least."""
        self._send("STOPPING=1", _status(status), f"EXTEND_TIMEOUT_USEC={round(within * _MICRO)}")

    def status(self, status: str) -> None:
        """Say in one line how the service is."""
        self._send(_status(status))

    def alive(self) -> None:
        """Feed the watchdog."""
        if self.watchdog_s is not None:
            self._send("WATCHDOG=1")

    def _send(self, *fields: str) -> None:
        if self._address is None:
            return
        name = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaking:
                speaking.settimeout(SEND_S)
                speaking.sendto("\n".join(fields).encode(errors="replace"), name)
        except (OSError, ValueError) as error:
            _log.warning("the service manager cannot be told", action="notify", told=fields[0], problem=str(error))


def _status(text: str) -> str:
    line = "".join(each if each.isprintable() else " " for each in text)
    return f"STATUS={line[:_STATUS_LIMIT]}"
