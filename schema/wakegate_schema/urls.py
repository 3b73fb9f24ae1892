"""URLs that wakegate may speak to: HTTPS, or plain HTTP to this very machine (AAP, conventions)."""

import re
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from wakegate_schema.errors import WakegateError

MAX_URL: Final = 2_048


class MalformedUrl(WakegateError):
    """The URL cannot be used here."""

    reason = "bad_url"


def base_url(text: str) -> str:
    """Return a provider's base URL in the one form it is stored, sealed and compared in.

    Args:
        text: `https://host[:port][/prefix]`; `http` only on loopback; no user, query or fragment.

    Returns:
        Scheme and host in lower case, no default port, no trailing slash.

    Raises:
        MalformedUrl: `bad_url` or, for plain HTTP to another host, `not_https`.
    """
    scheme, host, port, path, query = _split(text)
    if query is not None:
        raise MalformedUrl("A base URL has no query: leave out everything from the question mark on.")
    default = port is None or int(port) == _DEFAULT_PORTS[scheme]
    return f"{scheme}://{host}{'' if default else f':{int(port or 0)}'}{path.rstrip('/')}"


def webhook_url(text: str) -> str:
    """Return a receiver's URL unchanged when webhooks may be sent to it.

    Args:
        text: `https://host[:port]/path[?query]`; `http` only on loopback; no user and no fragment.

    Raises:
        MalformedUrl: `bad_url` or, for plain HTTP to another host, `not_https`.
    """
    _split(text)
    return text


def is_loopback(host: str) -> bool:
    """Say whether a host is this machine: `localhost`, 127.0.0.0/8 or ::1 (with or without brackets)."""
    if host.lower() == "localhost":
        return True
    address = _address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
    if isinstance(address, IPv4Address):
        return address.packed[0] == 127
    return address is not None and address == IPv6Address("::1")


_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[a-z0-9._~!$&'()*+,;=:@/%-]*)?(?:\?(?P<query>[a-z0-9._~!$&'()*+,;=:@/?%-]*))?",
    re.IGNORECASE | re.ASCII,
)
_NAME: Final = re.compile(r"(?=.{1,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
"""The last label begins with a letter, or some resolvers would read the host as an IPv4 address."""
_BROKEN: Final = re.compile(r"%(?![0-9a-f]{2})", re.IGNORECASE)
_HIDDEN: Final = re.compile(r"%(?:2e|2f|5c|00)", re.IGNORECASE)
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}


def _split(text: str) -> tuple[str, str, str | None, str, str | None]:
    """Return the checked scheme, host, port, path and query."""
    found = _URL.fullmatch(text) if len(text) <= MAX_URL else None
    if found is None or _BROKEN.search(text):
        raise MalformedUrl("A URL is https://host[:port][/path] in ASCII, without user and fragment.")
    scheme, host, path = found["scheme"].lower(), _host(found["host"].lower()), found["path"] or ""
    if found["port"] is not None and not 0 < int(found["port"]) < 65_536:
        raise MalformedUrl("The URL's port is not between 1 and 65535.")
    segments = path.rstrip("/").split("/")
    if _HIDDEN.search(path) or {".", ".."} & set(segments) or "" in segments[1:]:
        raise MalformedUrl("The URL's path has an empty, dotted or disguised segment.")
    if scheme == "http" and not is_loopback(host):
        raise MalformedUrl("Use https: plain http is only for this machine.", reason="not_https")
    return scheme, host, found["port"], path, found["query"]


def _host(host: str) -> str:
    address = _address(host.strip("[]"))
    if host.startswith("[") and isinstance(address, IPv6Address):
        return f"[{address}]"
    if not host.startswith("[") and (isinstance(address, IPv4Address) or _NAME.fullmatch(host)):
        return host
    raise MalformedUrl("The URL's host is neither a name nor an IP address.")


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return IPv6Address(host) if ":" in host and "%" not in host else IPv4Address(host)
    except ValueError:
        return None
