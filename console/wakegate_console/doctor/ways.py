"""Ways: how a server is reached, and so who may read along."""

import ipaddress
from typing import Literal

Way = Literal["socket", "loopback", "network"]


def way(host: str) -> Way:
    """Return how a host is got to: a folder of sockets (an abstract one too), this machine, or another."""
    if not host or host.startswith(("/", "@")):
        return "socket"
    try:
        return "loopback" if ipaddress.ip_address(host).is_loopback else "network"
    except ValueError:
        return "loopback" if host == "localhost" else "network"
