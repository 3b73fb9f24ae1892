"""Addresses that a service listens on, as settings write them: `host:port`."""

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
