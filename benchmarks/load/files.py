"""Whole requests in a file. Apart from what makes them, so that no peer and no load has to import more than it uses."""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

PATH: Final = "/aap/events"
_LENGTH: Final = struct.Struct("<I")


def write(file: Path, requests: Iterable[bytes]) -> None:
    """Write requests one after the other."""
    with file.open("wb") as out:
        for each in requests:
            out.write(_LENGTH.pack(len(each)))
            out.write(each)


def read(file: Path) -> Iterator[bytes]:
    """Every request in a file, in its order."""
    data, at = file.read_bytes(), 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        yield data[at : at + length]
        at += length
