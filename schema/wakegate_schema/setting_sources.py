"""Setting sources: the environment and the settings file, read without trusting either."""

import difflib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PREFIX = "WAKEGATE_"
CONFIG_VARIABLE = "WAKEGATE_CONFIG"
DEFAULT_CONFIG = Path("wakegate.toml")
CREDENTIALS_VARIABLE = "CREDENTIALS_DIRECTORY"

_IGNORED = ("WAKEGATE_TEST_", "WAKEGATE_SERVICE_", "WAKEGATE_PORT")
_SIZE_LIMIT = 1_048_576
_SUFFIX = "_file"


@dataclass(frozen=True, slots=True)
class Gathered:
    """The raw values by setting, where each came from, and what was wrong on the way."""

    values: dict[str, object] = field(default_factory=dict, repr=False)
    labels: dict[str, str] = field(default_factory=dict)
    """What to call each setting in an error: `WAKEGATE_LISTEN`, or `wakegate.toml: listen`."""
    problems: list[str] = field(default_factory=list)


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
) -> Gathered:
    """Read the settings file, then the environment over it, then systemd's credentials for what is unset.

    Args:
        config: the file named on the command line; else `$WAKEGATE_CONFIG`, else `./wakegate.toml` if there.
        environ: the environment.
        names: every setting.
        file_only: the settings that only the file may have.
        secret_files: the settings whose unset value a systemd credential may take, named without `_file`.
    """
    known = list(names)
    gathered = Gathered()
    _take_file(gathered, config, environ, known)
    _take_environment(gathered, environ, known, file_only)
    _take_credentials(gathered, environ, secret_files)
    return gathered


def _take_file(gathered: Gathered, config: Path | None, environ: Mapping[str, str], known: list[str]) -> None:
    if config is None and environ.get(CONFIG_VARIABLE) == "":
        gathered.problems.append(f"{CONFIG_VARIABLE}: is empty; name a file or leave it out")
        return
    path, named_by = _config_path(config, environ)
    if path is None:
        return
    document = _read_toml(path, named_by, gathered.problems)
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


def _read_toml(path: Path, named_by: str, problems: list[str]) -> dict[str, object]:
    subject = f"{named_by}: {shown(str(path))}" if named_by else str(path)
    try:
        with path.open("rb") as file:
            data = file.read(_SIZE_LIMIT + 1)
    except FileNotFoundError:
        problems.append(f"{subject}: the settings file does not exist")
        return {}
    except OSError as error:
        problems.append(f"{subject}: the settings file cannot be read: {error.strerror}")
        return {}
    if len(data) > _SIZE_LIMIT:
        problems.append(f"{subject}: the settings file is over 1 MiB")
        return {}
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        problems.append(f"{subject}: the settings file is not UTF-8")
    except tomllib.TOMLDecodeError as error:
        problems.append(f"{subject}: not TOML: {shown(str(error))}")
    except (ValueError, RecursionError):
        problems.append(f"{subject}: not TOML that can be read: a number is too long or the nesting too deep")
    return {}


def _take_environment(
    gathered: Gathered, environ: Mapping[str, str], known: list[str], file_only: frozenset[str]
) -> None:
    names = [name for name in known if name not in file_only]
    variables = {variable(name): name for name in names}
    for key in sorted(environ):
        if not key.upper().startswith(PREFIX) or key == CONFIG_VARIABLE or key.startswith(_IGNORED):
            continue
        if key in variables:
            gathered.values[variables[key]] = environ[key]
            gathered.labels[variables[key]] = key
        else:
            gathered.problems.append(f"{shown(key)}: {_unknown_variable(key, names, file_only)}")


def _take_credentials(gathered: Gathered, environ: Mapping[str, str], secret_files: Iterable[str]) -> None:
    directory = Path(environ.get(CREDENTIALS_VARIABLE, ""))
    if not directory.is_absolute():
        return
    for name in secret_files:
        path = directory / name.removesuffix(_SUFFIX)
        if name not in gathered.values and path.is_file():
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
