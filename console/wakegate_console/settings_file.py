"""Changing the settings file: one table at a time, nothing else touched, and never into one that would not load."""

import fcntl
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from wakegate_console.context import Context
from wakegate_schema import drafts
from wakegate_schema.errors import WakegateError
from wakegate_schema.settings import Settings, load_settings

_NEW_MODE = 0o644
_NEXT_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


class SettingsFileRefused(WakegateError):
    """The settings file cannot be changed; it is as it was."""

    reason = "settings_file"


class SettingsFile:
    """The settings file in force, held alone, with the settings that it gives."""

    def __init__(self, context: Context) -> None:
        """Read it. Raises SettingsError."""
        self._config = context.config
        self.settings: Settings = context.settings()
        self.path = _real(self.settings)

    def put(self, section: str, name: str, values: Mapping[str, Any]) -> None:
        """Write the table `[section.name]`: one that is there keeps its place and comments, a new one comes last.

        Raises:
            SettingsFileRefused: the table is written in a form that is not changed here, or the file cannot be written.
            SettingsError: the result would not load.
        """
        self._change(section, name, values)

    def drop(self, section: str, name: str) -> None:
        """Remove the table `[section.name]`; comments after it stay. Raises as `put`."""
        self._change(section, name, None)

    def _change(self, section: str, name: str, values: Mapping[str, Any] | None) -> None:
        old = self._text()
        new = _changed(old, f"{section}.{name}", values)
        try:
            fits = new is not None and _without_empty(tomllib.loads(new), section) == _meant(old, section, name, values)
        except tomllib.TOMLDecodeError:
            fits = False
        if new is None or not fits:
            raise SettingsFileRefused(
                f"{self.path}: [{section}.{name}] is not a table of its own there, or is written in a form that only"
                " a person can change; nothing was changed: edit the file by hand"
            )
        load_settings(self._config, text=new.encode())
        self._write(new.encode())

    def _text(self) -> str:
        try:
            return self.path.read_bytes().decode()
        except FileNotFoundError:
            return ""

    def _write(self, data: bytes) -> None:
        try:
            status = self.path.stat() if self.path.exists() else None
            mode = _NEW_MODE if status is None else stat.S_IMODE(status.st_mode)
            owner = None if status is None else (status.st_uid, status.st_gid)
            drafts.replace(self.path, data, mode, durable=True, owner=owner)
        except OSError as error:
            raise SettingsFileRefused(f"{self.path} cannot be written: {error.strerror}") from error


@contextmanager
def changing(context: Context) -> Iterator[SettingsFile]:
    """Hold the settings file alone, against other commands; one that is not there yet is `./wakegate.toml`.

    Raises:
        SettingsError: the settings are wrong already.
        SettingsFileRefused: its folder cannot be opened.
    """
    folder = _real(context.settings()).parent
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SettingsFileRefused(f"{folder}: the folder cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield SettingsFile(context)
    finally:
        os.close(descriptor)


def _real(settings: Settings) -> Path:
    """Return the file itself, where a link has its name."""
    if settings.config_file is None:
        raise SettingsFileRefused("these settings come from no file")
    return Path(os.path.realpath(settings.config_file.path))


def _changed(text: str, table: str, values: Mapping[str, Any] | None) -> str | None:
    """Return the text with this one table changed; None if it cannot be told where it is."""
    start, end = _place(text, table)
    if start < 0:
        if values is None:
            return None
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return text + _as_written(gap + _table(f"[{table}]\n", values), text)
    before, after = text[:start], text[end:]
    if values is None:
        parts = [part for part in (before.rstrip("\r\n"), after.strip("\r\n")) if part]
        return _as_written("\n\n".join(parts) + "\n" if parts else "", text)
    return before + _as_written(_table(text[start:end], values), text) + after


def _place(text: str, table: str) -> tuple[int, int]:
    """Return where the table begins and ends, comments and blank lines after it left out; (-1, -1) if unclear."""
    section, name = map(re.escape, table.split("."))
    head = rf"^[ \t]*\[[ \t]*{section}[ \t]*\.[ \t]*([\"']?){name}\1[ \t]*\][ \t]*(?:#[^\n]*)?\r?$"
    found = list(re.finditer(head, text, re.MULTILINE))
    if len(found) != 1:
        return -1, -1
    begin = found[0].start()
    after = _NEXT_TABLE.search(text, found[0].end())
    lines = text[begin : after.start() if after else len(text)].split("\n")
    while not lines[-1].strip() or lines[-1].lstrip().startswith("#"):
        lines.pop()
    end = begin + len("\n".join(lines))
    return begin, end + (text[end : end + 1] == "\n")


def _table(written: str, values: Mapping[str, Any]) -> str:
    """Return one table with exactly these values, and its comments."""
    try:
        document = tomlkit.parse(written)
        [section] = document.values()
        [table] = section.values()
        for key in [key for key in table if key not in values]:
            del table[key]
        for key, value in values.items():
            if table.get(key) != value:
                table[key] = value
        return tomlkit.dumps(document)
    except (TOMLKitError, ValueError) as error:
        raise SettingsFileRefused(f"the table cannot be changed ({error}); edit the file by hand") from error


def _as_written(piece: str, text: str) -> str:
    """Return the piece with the line endings of the text around it."""
    return re.sub(r"\r?\n", "\r\n", piece) if "\r\n" in text else piece


def _meant(text: str, section: str, name: str, values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what the file is to say: what it said, with the one table changed."""
    document = tomllib.loads(text)
    tables = {key: table for key, table in document.get(section, {}).items() if key != name}
    return _without_empty({**document, section: tables if values is None else {**tables, name: dict(values)}}, section)


def _without_empty(document: dict[str, Any], section: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != section or value}
