"""Templates: the settings files that `wakegate init` writes, and what a development folder must not commit.

Every setting is there with its default, taken from the settings themselves.
"""

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

from wakegate_console import layout
from wakegate_schema.addresses import Address
from wakegate_schema.settings import FILE_ONLY, Settings

WIDTH = 118

IGNORED = (
    "*.db",
    "*.db-*",
    "*.key",
    "*.key.old",
    "*.password",
    "*.secret",
    "*.sock",
    "*.sock.*",
    "*.token",
    "refusals.jsonl*",
    ".*.partial",
    ".refusals.jsonl.*",
)
"""What the services and commands make in their folder: stores, locks, sockets, and above all secrets."""

_EXAMPLES = {
    "database_password_file": "database.password",
    "metrics_listen": "127.0.0.1:9464",
    "provider_policy_file": "policy.toml",
    "queue_password_file": "queue.password",
    "tls_cert_file": "server.pem",
    "tls_key_file": "server.key",
    "tools": "my_tools",
}
_HEAD = """\
# Settings of wakegate. A # with no blank after it stands before a setting at its default, or an example of one: remove
# it and change the value. WAKEGATE_* environment variables go over this file. docs/settings.md says more of each.
"""
_DEVELOPMENT = "# Relative paths start at the folder that a command runs in: run them all in this one.\n"
_SYSTEM = f"""\
# Both services read this file, so no secret is in it: secrets are files of their own, and root's.
# Commands find it by `wakegate --config {layout.SETTINGS}`, or by WAKEGATE_CONFIG.
"""
_TABLES = """
# Where harnesses are woken: a name that a call may choose, and where it leads.
#[wake.my-harness]
#kind = "http"
#url = "https://harness.example/wakes"

# Who may use the control API: `wakegate harness add NAME --uid N --instance INSTANCE` writes such a table.
#[harness.my-harness]
#uid = 1200
#instances = ["refund-desk"]
"""


def development() -> str:
    """Return the settings file of a development folder: nothing is set."""
    return "".join([_HEAD, _DEVELOPMENT, *_settings({}), _TABLES])


def system() -> str:
    """Return the settings file of a deployment: it names the paths of the layout."""
    values = {
        "database": f"sqlite:///{layout.STORE}",
        "control": str(layout.CONTROL),
        "receiver_key_file": str(layout.RECEIVER_KEY),
        "worker_key_file": str(layout.WORKER_KEY),
        "wake_secret_file": str(layout.WAKE_SECRET),
        "log_format": "json",
    }
    return "".join([_HEAD, _SYSTEM, *_settings(values), _TABLES])


def missing_patterns(path: Path) -> list[str]:
    """Return what a `.gitignore` does not name. Raises OSError."""
    lines = {line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines()}
    return [pattern for pattern in IGNORED if pattern not in lines]


def _settings(values: Mapping[str, str]) -> list[str]:
    return [_setting(name, values.get(name)) for name in Settings.model_fields if name not in FILE_ONLY]


def _setting(name: str, value: str | None) -> str:
    field = Settings.model_fields[name]
    extra = field.json_schema_extra
    words = str(extra["words"] or "") if isinstance(extra, dict) else ""
    meaning = field.description or ""
    if value is not None:
        line = f"{name} = {_toml(value)}"
    elif words:
        otherwise = words.removeprefix("none: ")
        meaning, line = f"{meaning} Unless set: {otherwise}.", f"#{name} = {_toml(_example(name, words))}"
    else:
        line = f"#{name} = {_toml(field.default)}"
    return "\n" + "\n".join([*_comment(meaning), line]) + "\n"


def _example(name: str, words: str) -> str:
    """Return a value for a setting whose default is only told in words: the file it names, or an example."""
    named = re.match("`([^`]+)`", words)
    return named.group(1) if named else _EXAMPLES.get(name, "")


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _toml(value: object) -> str:
    """Return a default or an example as TOML writes it; none of them has a quote or a backslash in it."""
    return f'"{value}"' if isinstance(value, str | Address) else str(value)
