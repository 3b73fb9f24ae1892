"""The files of refused requests, one for each receiver on them: JSON lines, the oldest first, replaced as a whole."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from wakegate_schema import drafts, lock_files
from wakegate_schema.clock import SECOND

KEPT: Final = 1000
"""How many refusals are kept."""
MOST: Final = 64
"""How many receivers can keep theirs beside one another."""
MAX_LINE: Final = 2_048
"""Bytes of one line; longer ones are not ours."""
_MODE: Final = 0o660


def read_refusals(path: Path) -> list[dict[str, Any]]:
    """Return what all receivers keep at this path, the oldest first; none when there is no file.

    Each has `at` (µs since the Unix epoch), `status` (None when nothing could be answered), `reason`, `bytes`,
    `body_sha256`, `remote`, `registration_id` and `instance_id`, the last five None where unknown. Lines that are
    not refusals are left out. Raises OSError when a file cannot be read.
    """
    kept = [found for each in places(path) if (found := read_file(each))]
    return kept[0] if len(kept) == 1 else sorted((entry for one in kept for entry in one), key=_at)


def places(path: Path) -> list[Path]:
    """Return the files that receivers may have: the one of the first of them, and those of others beside it."""
    return [path, *(path.with_name(f"{path.name}.{number}") for number in range(2, MOST + 1))]


def read_file(path: Path) -> list[dict[str, Any]]:
    """Return what one file holds, as `read_refusals` does."""
    try:
        with open(path, "rb", opener=_opened) as file:
            data = file.read(KEPT * MAX_LINE)
    except FileNotFoundError:
        return []
    entries = [_entry(line) for line in data.splitlines()[-KEPT:]]
    return [entry for entry in entries if entry is not None]


def write_refusals(path: Path, entries: Iterable[dict[str, Any]]) -> None:
    """Put these refusals in the file's place, mode 0660, so that no reader sees half of it. Raises OSError."""
    drafts.replace(path, b"".join(json.dumps(entry).encode() + b"\n" for entry in entries), _MODE)


def lock_refusals(path: Path) -> tuple[Path, int] | None:
    """Take the sole right to write the first file that no other receiver has, by a lock on a file beside it.

    Returns that file, and the descriptor that holds its lock (`….lock`, which stays) until it is closed. None while
    others have all of them. Raises OSError.
    """
    for each in places(path):
        descriptor = lock_files.take(each.with_name(f"{each.name}.lock"), _MODE)
        if descriptor is not None:
            return each, descriptor
    return None


def _at(entry: dict[str, Any]) -> int:
    at: int = entry["at"]
    return at


def _opened(path: str, flags: int) -> int:
    """Open a file without waiting for anybody: a pipe in its place would be waited for without end."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or entry.keys() != _FIELDS.keys():
        return None
    fits = all(type(value) in _FIELDS[name] for name, value in entry.items()) and 0 <= entry["at"] < _LATEST
    return entry if fits else None


_NOTHING: Final = type(None)
_FIELDS: Final[Mapping[str, tuple[type, ...]]] = {
    "at": (int,),
    "status": (int, _NOTHING),
    "reason": (str,),
    "bytes": (int, _NOTHING),
    "body_sha256": (str, _NOTHING),
    "remote": (str, _NOTHING),
    "registration_id": (str, _NOTHING),
    "instance_id": (str, _NOTHING),
}
_LATEST: Final = 253_402_300_800 * SECOND
"""The end of the year 9999, the last there is a timestamp of."""
