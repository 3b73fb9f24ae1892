"""Redis addresses: what WAKEGATE_QUEUE may be. Read without the driver, and never with a password in it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

EMBEDDED: Final = "embedded"
"""The queue that is the store itself."""

Kind = Literal["redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel"]

_KINDS: Final[tuple[Kind, ...]] = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")
_SCHEME = re.compile(r"([a-z+]+)://")
_NUMBER = re.compile(r"[0-9]{1,5}")
_SERVICE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TLS: Final = frozenset({"ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile"})
"""Options of TLS, as redis-py has them in its URLs. A server that proves nothing is not talked to."""
_SWITCHES: Final = frozenset({"ssl_check_hostname", "sentinel_auth"})
_PORT, _SENTINEL_PORT = 6379, 26379
_CLUSTER = (
    "names a Redis Cluster, and RQ cannot work on one: its worker knows no cluster and its scripts use keys of"
    " different slots; use one Redis server (redis://), or Redis Sentinel (redis+sentinel://) for failover"
)
_SECRET = "must not hold a password; write it to a file and name that by WAKEGATE_QUEUE_PASSWORD_FILE"  # noqa: S105


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where a Redis is, or the Sentinels that know it."""

    kind: Kind
    hosts: tuple[tuple[str, int], ...]
    """Host and port: the server's, or each Sentinel's; none for a Unix socket."""
    path: str | None
    """The Unix socket's path."""
    service: str | None
    """The name by which Sentinels know the server."""
    database: int
    username: str | None
    options: Mapping[str, str]
    """Options of TLS, and `sentinel_auth`."""

    @property
    def tls(self) -> bool:
        """Whether it is spoken to over TLS."""
        return self.kind.startswith("rediss")


def checked(url: str) -> str:
    """Return the text of WAKEGATE_QUEUE if it is `embedded` or the URL of a Redis. Raises ValueError."""
    if url != EMBEDDED:
        parse(url)
    return url


def parse(url: str) -> RedisAddress:
    """Read the URL of a Redis.

    Args:
        url: `redis://[USER@]HOST[:PORT][/DB]`, `rediss://` for TLS, `unix://[USER@]/PATH[?db=DB]`, or
            `redis+sentinel://[USER@]HOST[:PORT][,HOST…]/SERVICE[/DB]`, `rediss+sentinel://` for TLS.

    Raises:
        ValueError: it is something else; the message shows nothing of it.
    """
    kind = _kind(url)
    parts = urlsplit(url)
    if parts.fragment or "%00" in url:
        raise ValueError("must be a URL without a fragment")
    user, at, netloc = parts.netloc.rpartition("@")
    if ":" in user or (at and not user):
        raise ValueError(_SECRET)
    options = _options(parts, kind)
    database = options.pop("db", None)
    common = {"kind": kind, "username": unquote(user) or None, "options": options}
    if kind == "unix":
        if netloc or not parts.path.startswith("/") or parts.path.endswith("/"):
            raise ValueError("must name the socket's absolute path: unix:///run/redis/redis.sock?db=0")
        return RedisAddress(**common, hosts=(), path=unquote(parts.path), service=None, database=_database(database))  # type: ignore[arg-type]
    service, path = None, parts.path.strip("/")
    if "sentinel" in kind:
        service, _, path = path.partition("/")
        if not _SERVICE.fullmatch(service):
            raise ValueError("must name the service that the Sentinels watch: redis+sentinel://HOST:26379/SERVICE/0")
    hosts = _hosts(netloc, _SENTINEL_PORT if service else _PORT)
    if len(hosts) > 1 and service is None:
        raise ValueError("must name one host; several are Sentinels: redis+sentinel://HOST:26379,HOST2:26379/SERVICE/0")
    return RedisAddress(**common, hosts=hosts, path=None, service=service, database=_database(path or database))  # type: ignore[arg-type]


def _kind(url: str) -> Kind:
    found = _SCHEME.match(url)
    scheme = found[1] if found else ""
    if "cluster" in scheme:
        raise ValueError(_CLUSTER)
    for kind in _KINDS:
        if scheme == kind:
            return kind
    raise ValueError("must be embedded, redis://, rediss://, unix:// or redis+sentinel://")


def _options(parts: SplitResult, kind: Kind) -> dict[str, str]:
    try:
        found = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), max_num_fields=16)
    except ValueError:
        raise ValueError("must have options like ?ssl_ca_certs=/etc/redis/ca.pem") from None
    if any("password" in name for name in found):
        raise ValueError(_SECRET)
    allowed = {"db"} | (_TLS if kind.startswith("rediss") else set())
    allowed |= {"sentinel_auth"} if "sentinel" in kind else set()
    if unknown := found.keys() - allowed:
        known = ", ".join(sorted(allowed))
        more = "; TLS options belong to rediss://" if any(name.startswith("ssl") for name in unknown) else ""
        raise ValueError(f"has an option that is not allowed here; those that are: {known}{more}")
    for name, values in found.items():
        if len(values) != 1 or not values[0] or (name in _SWITCHES and values[0] not in ("true", "false")):
            raise ValueError(f"must have one value for the option {name}{' (true or false)' * (name in _SWITCHES)}")
    return {name: values[0] for name, values in found.items()}


def _hosts(netloc: str, port: int) -> tuple[tuple[str, int], ...]:
    return tuple(_host(each, port) for each in netloc.split(","))


def _host(text: str, default: int) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or port == 0:
        raise ValueError(
            "must name a host, and a port from 1 to 65535 if another than the usual one: redis://HOST:PORT/0"
        )
    return unquote(host), port or default


def _database(text: str | None) -> int:
    if text is not None and not _NUMBER.fullmatch(text):
        raise ValueError("must name the database by its number, such as /0")
    return int(text or 0)
