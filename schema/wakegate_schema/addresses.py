"""Addresses that a service listens on, as settings write them: `host:port`."""

import errno
import os
import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Self

_HOST_PORT = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<host>[A-Za-z0-9._-]{1,253})):(?P<port>[0-9]{1,5})")
_PORT_LIMIT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP address."""

    host: str
    """A name or an IP address, IPv6 without brackets."""
    port: int
    """0 asks the system for a free port."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the address written as `host:port`, an IPv6 host in brackets.

        Raises:
            ValueError: it has another form. The message says which form is right and does not show the text.
        """
        match = _HOST_PORT.fullmatch(text)
        if match is None or int(match["port"]) > _PORT_LIMIT:
            raise ValueError("must be host:port, such as 127.0.0.1:8080 or [::1]:8080, with a port up to 65535")
        if match["v6"] is None:
            return cls(match["host"], int(match["port"]))
        try:
            host = str(IPv6Address(match["v6"]))
        except ValueError:
            raise ValueError("the part in brackets must be an IPv6 address, such as [::1]:8080") from None
        return cls(host, int(match["port"]))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def cannot_listen(setting: str, address: Address, error: OSError) -> str:
    """Return the message for an address that cannot be listened on, with what to do.

    Args:
        setting: the variable that names the address, such as `WAKEGATE_LISTEN`.
        address: where.
        error: what the system said.
    """
    number = error.errno if isinstance(error.errno, int) and error.errno > 0 else None
    reason = os.strerror(number) if number is not None else error.strerror or str(error)
    advice = {
        errno.EADDRINUSE: "; stop what listens there, or choose another port",
        errno.EADDRNOTAVAIL: "; choose an address of this machine",
        errno.EACCES: "; choose a port from 1024 on",
    }
    return f"{setting}: cannot listen on {address}: {reason}{advice.get(error.errno or 0, '')}"
