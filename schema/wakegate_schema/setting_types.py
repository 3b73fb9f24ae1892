"""Setting types: what the text of one setting may be. Every message says what is right and shows no value."""

import errno
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import parse_qs, urlsplit

from pydantic import BeforeValidator

from wakegate_schema.addresses import Address
from wakegate_schema.queue import redis_address
from wakegate_schema.urls import is_loopback

SOCKET_PATH_LIMIT = 107
"""The longest Unix socket path, in bytes (Linux: 108 with the closing zero)."""

_WHOLE = re.compile(r"[0-9]{1,15}")
_DECIMAL = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_SECRET_SHAPE = re.compile(r"whsec_.*|[A-Za-z0-9_=-]{32,}|[A-Za-z0-9+/_-]{43}=")
_EVENTS_PATH = re.compile(r"/|(?:/[A-Za-z0-9._~-]+)+")
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_ENTRY_POINT = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
FRAMEWORK = re.compile(r"[a-z][a-z0-9_-]{0,63}")
"""A framework's name: no other can be in `WAKEGATE_RESUMERS`."""
_POOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_TABLE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_SQLITE = "sqlite:///"


def whole_number(low: int, high: int) -> BeforeValidator:
    """Accept a whole number in these bounds, written in digits."""

    def check(value: object) -> int:
        number = int(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else value
        if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return number

    return BeforeValidator(check)


def seconds(low: float, high: float, *, strictly_inside: bool = False) -> BeforeValidator:
    """Accept seconds from `low` to `high`, a fraction allowed; `strictly_inside` leaves both ends out."""
    bounds = f"over {low:g} and under {high:g}" if strictly_inside else f"from {low:g} to {high:g}"

    def check(value: object) -> float:
        if isinstance(value, str) and _DECIMAL.fullmatch(value):
            value = float(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            inside = low < value < high if strictly_inside else low <= value <= high
            if inside:
                return float(value)
        raise ValueError(f"must be a number of seconds {bounds}, without a unit")

    return BeforeValidator(check)


def text(value: object) -> str:
    """Accept text that is not empty, has no blanks around it and no control characters in it."""
    if not isinstance(value, str):
        raise ValueError("must be text")  # noqa: TRY004 (pydantic collects value errors)
    if not value:
        raise ValueError("is empty; give it a value or leave it out")
    if value != value.strip() or not value.isprintable():
        raise ValueError("has blanks around it or control characters in it")
    return value


def table_name(value: object) -> str:
    """Accept the NAME of a table `[section.NAME]`: a lower-case letter, then up to 62 of a-z, 0-9, _ and -."""
    if not isinstance(value, str) or _TABLE_NAME.fullmatch(value) is None:
        raise ValueError("must be a name: a lower-case letter, then up to 62 lower-case letters, digits, _ and -")
    return value


def one_of(*words: str) -> BeforeValidator:
    """Accept one of these words."""

    def check(value: object) -> str:
        if value not in words:
            raise ValueError(f"must be {' or '.join(filter(None, (', '.join(words[:-1]), words[-1])))}")
        return str(value)

    return BeforeValidator(check)


def file_path(value: object) -> Path:
    """Accept the path of a file that need not exist yet."""
    if isinstance(value, Path):
        value = str(value)
    path = text(value)
    if path.startswith("~"):
        raise ValueError("must not begin with ~, which is not expanded; write the whole path")
    if path.endswith("/") or _is_directory(Path(path)):
        raise ValueError("must be a file, not a directory")
    if _is_circle(Path(path)):
        raise ValueError("is a link that leads back to itself; name the file itself")
    return Path(path)


def secret_path(value: object) -> Path:
    """Accept the path of a file that holds a secret, and refuse what looks like the secret itself."""
    if isinstance(value, str) and _SECRET_SHAPE.fullmatch(value):
        raise ValueError("looks like a secret, not a path; write the secret to a file and give the file's path")
    return file_path(value)


def existing_file(path: Path) -> Path:
    """Refuse the path of a file that is surely not there; one this user may not see is left to its reader."""
    try:
        path.stat()
    except PermissionError:
        return path
    except OSError:
        raise ValueError("names a file that does not exist") from None
    return path


def sqlite_url(value: object) -> str:
    """Accept `sqlite:///relative.db` or `sqlite:////absolute.db`."""
    url = text(value)
    path = url.removeprefix(_SQLITE)
    if path == url or not path or any(character in path for character in "?#%") or path == ":memory:":
        raise ValueError("must be sqlite:///FILE for a relative path or sqlite:////FILE for an absolute one")
    file_path(path)
    return url


_SECRET_OPTIONS = {"sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
"""What libpq takes in a URL that is as secret as a password."""


def store_url(value: object) -> str:
    """Accept SQLite's URLs, and PostgreSQL's as libpq reads them, without a password."""
    url = text(value)
    if url.startswith(("postgres:", "postgresql+")) or (url.startswith("postgresql:") and not is_postgresql(url)):
        raise ValueError("a PostgreSQL store is written postgresql://USER@HOST:PORT/DATABASE")
    if not is_postgresql(url):
        if not url.startswith(_SQLITE):
            raise ValueError("must be sqlite:///FILE or postgresql://USER@HOST/DATABASE")
        return sqlite_url(value)
    parts = urlsplit(url)
    if ":" in parts.netloc.rpartition("@")[0] or "password" in parse_qs(parts.query, keep_blank_values=True):
        raise ValueError(
            "must not hold a password; put it into a file and name that by WAKEGATE_DATABASE_PASSWORD_FILE"
        )
    if _SECRET_OPTIONS & parse_qs(parts.query, keep_blank_values=True).keys():
        raise ValueError("must not hold a secret: name a key without a password, in a file that only this user reads")
    if not parts.path.strip("/") or parts.fragment:
        raise ValueError("must end with the database's name: postgresql://USER@HOST:PORT/DATABASE")
    return url


def is_postgresql(url: str) -> bool:
    """Return whether a store's URL names one in PostgreSQL."""
    return url.startswith("postgresql://")


def home(url: str) -> Path:
    """Return the folder in which a store's keys and sockets lie by default: SQLite's, or the working directory."""
    return Path() if is_postgresql(url) else sqlite_path(url).parent


def sqlite_path(url: str) -> Path:
    """Return the file that a `sqlite:///` URL names. Raises ValueError for anything else."""
    path = url.removeprefix(_SQLITE)
    if path in (url, ""):
        raise ValueError("a database URL looks like sqlite:///wakegate.db or sqlite:////var/lib/wakegate/wakegate.db")
    return Path(path)


def queue(value: object) -> str:
    """Accept `embedded`, or the URL of a Redis without a password."""
    if not isinstance(value, str):
        raise ValueError("must be embedded or the URL of a Redis")  # noqa: TRY004 (pydantic collects value errors)
    return redis_address.checked(text(value))


def pool(value: object) -> str:
    """Accept the name of a pool of workers."""
    if not isinstance(value, str) or _POOL.fullmatch(value) is None:
        raise ValueError("must be up to 64 letters, digits, _ and -, the first a letter or digit")
    return value


def address(value: object) -> Address:
    """Accept `host:port`."""
    return value if isinstance(value, Address) else Address.parse(text(value))


def loopback_address(value: object) -> Address:
    """Accept `host:port` on this machine only."""
    found = address(value)
    if not is_loopback(found.host):
        raise ValueError("must be on loopback, such as 127.0.0.1, [::1] or localhost")
    return found


def control_address(value: object) -> Path | Address:
    """Accept the path of a Unix socket, or loopback `host:port` (no slash, but a colon)."""
    if isinstance(value, Address) or (isinstance(value, str) and ":" in value and "/" not in value):
        found = loopback_address(value)
        if found.port == 0:
            raise ValueError("must have a port of its own, because harnesses connect to it; 0 is none")
        return found
    if isinstance(value, str) and ":" in value:
        raise ValueError("must be a plain socket path, such as /run/wakegate/control.sock, or loopback host:port")
    return socket_path(file_path(value))


def socket_path(path: Path) -> Path:
    """Refuse a path that is too long for a Unix socket."""
    if len(os.fsencode(path)) > SOCKET_PATH_LIMIT:
        raise ValueError(f"is a socket path over {SOCKET_PATH_LIMIT} bytes; choose a shorter one")
    return path


def events_path(value: object) -> str:
    """Accept the path of a URL: a leading slash, no trailing one, no query."""
    path = text(value)
    if _EVENTS_PATH.fullmatch(path) is None or any(part in {".", ".."} for part in path.split("/")):
        raise ValueError(
            "must be a URL path such as /aap/events: a leading slash, no trailing one,"
            " letters, digits and . _ ~ - between, no query"
        )
    return path


def module_names(value: object) -> tuple[str, ...]:
    """Accept comma-separated module names, or a list of them in a file."""
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or (isinstance(value, str) and not names):
        raise ValueError("must be module names, separated by commas")
    for name in names:
        if not isinstance(name, str) or _MODULE.fullmatch(name) is None:
            raise ValueError("must be importable module names such as shop.tools, separated by commas")
    if len(set(names)) != len(names):
        raise ValueError("names a module twice")
    return tuple(names)


def entry_point(value: object) -> str:
    """Accept `module:function`."""
    found = text(value)
    if _ENTRY_POINT.fullmatch(found) is None:
        raise ValueError("must be module:function, such as shop.agents:resume")
    return found


def directory(value: object) -> Path:
    """Accept the path of a directory, which need not be there yet."""
    if isinstance(value, Path):
        return value
    path = text(value)
    if path.startswith("~") or "\0" in path:
        raise ValueError("must be the whole path of a directory; ~ is not expanded")
    return Path(path)


def resumers(value: object) -> Mapping[str, str]:
    """Accept `framework=module:function`, separated by commas, or a table of them in a file."""
    named: dict[str, str] = {}
    pairs = value.items() if isinstance(value, Mapping) else [each.partition("=")[::2] for each in _parts(value)]
    for framework, function in pairs:
        named_so = isinstance(framework, str) and FRAMEWORK.fullmatch(framework.strip()) is not None
        if not named_so or not function:
            raise ValueError("must be framework=module:function, such as langgraph=shop.agents:resumer")
        if framework.strip() in named:
            raise ValueError("names a framework twice")
        named[framework.strip()] = entry_point(function.strip() if isinstance(function, str) else function)
    return MappingProxyType(named)


def _parts(value: object) -> list[str]:
    if not isinstance(value, str):
        raise ValueError("must be framework=module:function, separated by commas")  # noqa: TRY004 (pydantic's)
    return [each for each in value.split(",") if each.strip()]


def _is_circle(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        return False
