"""Drop-ins: what the units need beside themselves for a store or a queue elsewhere.

The receiver's unit has no network: its sockets are handed to it. A PostgreSQL or a Redis that is reached over TCP needs
one, and a password is handed over as the keys are. Nothing is written where the settings name neither.
"""

import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from wakegate_console import layout
from wakegate_console.installation.steps import CannotInit
from wakegate_console.layout import Place
from wakegate_schema.queue.redis_address import EMBEDDED, parse
from wakegate_schema.setting_types import is_postgresql
from wakegate_schema.settings import Settings

NAME: Final = "elsewhere.conf"
PLACES: Final = tuple(
    Place(layout.UNITS / f"{unit}.d" / NAME, "file", "root", "root", 0o644, "what the unit needs for a store elsewhere")
    for unit in ("wakegate-receiver.service", "wakegate-worker@.service")
)
_HEAD: Final = (
    f"# Made by `wakegate init --system` for the store and the queue that {layout.SETTINGS} names.\n[Service]\n"
)
_ODD: Final = re.compile(r"[^A-Za-z0-9_./+-]")


def drop_in(place: Place, settings: Settings) -> str | None:
    """Return what one of `PLACES` is to hold; None where it is not needed. Raises CannotInit."""
    lines = [*(_network(settings) if place is PLACES[0] else ()), *_passwords(settings)]
    return _HEAD + "".join(f"{line}\n" for line in lines) if lines else None


def tcp_hosts(settings: Settings) -> list[str]:
    """Return the hosts that the store and the queue are reached at over TCP; none for Unix sockets."""
    return [*_postgresql_hosts(settings.database), *_redis_hosts(settings.queue)]


def _postgresql_hosts(url: str) -> Iterator[str]:
    """Yield the hosts of a store's URL, as libpq reads it: in the options, else before the path."""
    if not is_postgresql(url):
        return
    parts = urlsplit(url)
    options = parse_qs(parts.query)
    named = options.get("hostaddr") or options.get("host") or [parts.netloc.rpartition("@")[2]]
    for each in named[0].split(","):
        host = re.sub(r":\d*$", "", unquote(each)) if "]" in each or each.count(":") == 1 else unquote(each)
        host = host.strip("[]")
        if host and not host.startswith(("/", "@")):
            yield host


def _redis_hosts(url: str) -> list[str]:
    return [] if url == EMBEDDED else [host for host, _ in parse(url).hosts]


def _network(settings: Settings) -> Iterator[str]:
    """Yield what opens the network, no wider than it has to be."""
    hosts = tcp_hosts(settings)
    if not hosts:
        return
    yield "PrivateNetwork=no"
    yield "RestrictAddressFamilies=AF_INET AF_INET6"
    if all(map(_is_address, hosts)) and "sentinel" not in urlsplit(settings.queue).scheme:
        yield f"IPAddressAllow={' '.join(dict.fromkeys(hosts))}"
    else:  # a name leads to an address, and Sentinels to another host, that nobody knows here
        yield "IPAddressDeny="


def _passwords(settings: Settings) -> Iterator[str]:
    for name in ("database", "queue"):
        path: Path | None = getattr(settings, f"{name}_password_file")
        if path is None:
            continue
        if _ODD.search(str(path)) or not path.is_absolute():
            raise CannotInit(
                f"WAKEGATE_{name.upper()}_PASSWORD_FILE: a unit can only name a whole path of letters, digits and"
                f" _ . / + -, such as {layout.CREDENTIALS}/{name}_password"
            )
        yield f"LoadCredential={name}_password:{path}"
        yield f"Environment=WAKEGATE_{name.upper()}_PASSWORD_FILE=%d/{name}_password"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
