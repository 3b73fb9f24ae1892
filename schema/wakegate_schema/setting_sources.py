"""Setting sources: the environment and the settings file, read without trusting either."""

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PREFIX = "WAKEGATE_"
CONFIG_VARIABLE = "WAKEGATE_CONFIG"
DEFAULT_CONFIG = Path("wakegate.toml")
CREDENTIALS_VARIABLE = "CREDENTIALS_DIRECTORY"

HARNESS_VARIABLES = frozenset({"WAKEGATE_CONTROL_TOKEN_FILE"})
"""What a harness reads, and no service: one environment may serve both."""
_IGNORED = ("WAKEGATE_TEST_", "WAKEGATE_SERVICE_", "WAKEGATE_PORT")
_SERVICE = re.compile(
    r"WAKEGATE_[A-Z0-9_]+_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_[0-9]+_(?:TCP|UDP|SCTP).*)"
)
_SERVICE_URL = re.compile(r"WAKEGATE_[A-Z0-9_]+_PORT=(?:tcp|udp|sctp)://.*")
"""What Kubernetes tells every container of a Service named `wakegate-…`; so spelt, none of it can be a setting."""
_SIZE_LIMIT = 1_048_576
_SUFFIX = "_file"


class MalformedFile(ValueError):
    """The settings file cannot be understood; the message says why, after the file's name."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The settings file in force."""

    path: Path
    """From the root, so that it stays the same file wherever the process goes."""
    found: bool
    """False: nobody named a file and there was none; this is where one would be looked for."""


@dataclass(slots=True)
class Gathered:
    """The raw values by setting, where each came from, and what was wrong on the way."""

    values: dict[str, object] = field(default_factory=dict, repr=False)
    labels: dict[str, str] = field(default_factory=dict)
    """What to call each setting in an error: `WAKEGATE_LISTEN`, or `wakegate.toml: listen`."""
    problems: list[str] = field(default_factory=list)
    config: ConfigFile | None = None
    """Known unless the environment names no file in the place of one."""


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper()


def gather(
    config: Path | None,
    environ: Mapping[str, str],
    *,
    names: Iterable[str],
    file_only: frozenset[str],
    secret_files: Iterable[str],
    text: bytes | None = None,
) -> Gathered:
    """Read the settings file, then systemd's credentials over it, then the environment over both.

    A settings file is everybody's; a credential is handed to this very service. So one file can name the key files
    for root's commands while each unit gets a copy of its own.

    Args:
        config: the file named on the command line; else `$WAKEGATE_CONFIG`, else `./wakegate.toml` if there.
        environ: the environment.
        names: every setting.
        file_only: the settings that only the file may have.
        secret_files: the settings that a systemd credential may be the file of, named without `_file`.
        text: what is in the file, in place of reading it.
    """
    known = list(names)
    gathered = Gathered()
    _take_file(gathered, config, environ, known, text)
    _take_credentials(gathered, environ, secret_files)
    _take_environment(gathered, environ, known, file_only)
    return gathered


def _take_file(
    gathered: Gathered, config: Path | None, environ: Mapping[str, str], known: list[str], text: bytes | None
) -> None:
    if config is None and environ.get(CONFIG_VARIABLE) == "":
        gathered.problems.append(f"{CONFIG_VARIABLE}: is empty; name a file or leave it out")
        return
    path, named_by = _config_path(config, environ)
    gathered.config = ConfigFile((path or DEFAULT_CONFIG).absolute(), found=path is not None)
    if path is None and text is None:
        return
    path = path or DEFAULT_CONFIG
    document = _read_toml(path, named_by, gathered.problems, text)
    for key, value in document.items():
        if key in known:
            gathered.values[key] = value
            gathered.labels[key] = f"{shown(str(path))}: {key}"
        else:
            gathered.problems.append(f"{shown(str(path))}: {shown(key)}: unknown setting{_hint(key.lower(), known)}")


def _config_path(config: Path | None, environ: Mapping[str, str]) -> tuple[Path | None, str]:
    if config is not None:
        return config, "--config"
    if CONFIG_VARIABLE in environ:
        return Path(environ[CONFIG_VARIABLE]), CONFIG_VARIABLE
    return (DEFAULT_CONFIG if DEFAULT_CONFIG.exists() else None), ""


def _read_toml(path: Path, named_by: str, problems: list[str], text: bytes | None) -> dict[str, object]:
    subject = f"{named_by}: {shown(str(path))}" if named_by else str(path)
    try:
        return tables_in(read_settings_file(path)[0] if text is None else text)
    except FileNotFoundError:
        problems.append(f"{subject}: the settings file does not exist")
    except OSError as error:
        problems.append(f"{subject}: the settings file cannot be read: {error.strerror}")
    except MalformedFile as error:
        problems.append(f"{subject}: {error}")
    return {}


def read_settings_file(path: Path) -> tuple[bytes, os.stat_result]:
    """Return what is in the settings file, and the status of the very file that was read.

    Raises:
        OSError: it cannot be read.
        MalformedFile: it is over 1 MiB.
    """
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        data = file.read(_SIZE_LIMIT + 1)
    if len(data) > _SIZE_LIMIT:
        raise MalformedFile("the settings file is over 1 MiB")
    return data, status


def tables_in(data: bytes) -> dict[str, object]:
    """Return what a settings file says, unchecked. Raises MalformedFile if it is not TOML."""
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise MalformedFile("the settings file is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise MalformedFile(f"not TOML: {shown(str(error))}") from None
    except (ValueError, RecursionError):
        raise MalformedFile("not TOML that can be read: a number is too long or the nesting too deep") from None


def _take_environment(
    gathered: Gathered, environ: Mapping[str, str], known: list[str], file_only: frozenset[str]
) -> None:
    names = [name for name in known if name not in file_only]
    variables = {variable(name): name for name in names}
    for key in sorted(environ):
        if not key.upper().startswith(PREFIX) or key == CONFIG_VARIABLE or _is_ignored(key, environ[key]):
            continue
        if key in variables:
            gathered.values[variables[key]] = environ[key]
            gathered.labels[variables[key]] = key
        else:
            gathered.problems.append(f"{shown(key)}: {_unknown_variable(key, names, file_only)}")


def _is_ignored(key: str, value: str) -> bool:
    """Return whether tests, a container platform or a harness have a use for this, and no service."""
    return (
        key in HARNESS_VARIABLES
        or key.startswith(_IGNORED)
        or bool(_SERVICE.fullmatch(key) or _SERVICE_URL.fullmatch(f"{key}={value}"))
    )


def _take_credentials(gathered: Gathered, environ: Mapping[str, str], secret_files: Iterable[str]) -> None:
    directory = Path(environ.get(CREDENTIALS_VARIABLE, ""))
    if not directory.is_absolute():
        return
    for name in secret_files:
        path = directory / name.removesuffix(_SUFFIX)
        if path.is_file():
            gathered.values[name] = str(path)
            gathered.labels[name] = f"${CREDENTIALS_VARIABLE}/{path.name}"


def _unknown_variable(key: str, names: list[str], file_only: frozenset[str]) -> str:
    name = key[len(PREFIX) :].lower()
    if name in file_only:
        return f"not taken from the environment; write it as tables in {DEFAULT_CONFIG}"
    return "unknown setting" + _hint(name, [*names, "config"], variable)


def _hint(name: str, known: Iterable[str], spell: Callable[[str], str] = str) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.7)
    return f"; did you mean {spell(close[0])}?" if close else ""


def shown(name: str) -> str:
    """Return text from outside as one short printable line."""
    printable = "".join(character if character.isprintable() else "?" for character in name)
    return printable if len(printable) <= 100 else printable[:97] + "..."


def finding(details: Any, label: str, setting: str) -> str:
    """Return one line for one of pydantic's findings: the setting as it was written, and what is right.

    Args:
        details: one of `ValidationError.errors()`.
        label: what the setting is called where it was written.
        setting: its name.
    """
    place = ".".join([label, *(shown(str(part)) for part in details["loc"] if part != "[key]")])
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, ValueError):
        return f"{place}: {cause}"
    return f"{place}: {_PLAIN.get(details['type'], details['msg']).format(setting)}"


_PLAIN = {
    "missing": "is missing",
    "extra_forbidden": "unknown setting",
    "dict_type": "must be tables, each [{}.NAME]",
    "model_type": "must be a table, [{}.NAME]",
}
