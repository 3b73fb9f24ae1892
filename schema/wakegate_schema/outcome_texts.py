"""Outcome texts: how much an attempt's outcome may say, and in which words, whoever ran the call."""

import traceback
from pathlib import Path
from typing import Final

RESULT_LIMIT: Final = 262_144
"""The largest result that is kept, in bytes of JSON."""
MESSAGE_LIMIT: Final = 500
"""The longest message that is kept, in characters."""


def one_line(text: str) -> str:
    """Return the text as one printable line of at most `MESSAGE_LIMIT` characters."""
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return line if len(line) <= MESSAGE_LIMIT else line[: MESSAGE_LIMIT - 1] + "…"


def said(error: object, name: str = "") -> str:
    """Return, as one line, the name, if one is given, and the error's own text, if it has one.

    For messages that were written for the agent; of any other exception only `place_of` is told.
    """
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 (an error that has no text is the same error)
        text = ""
    return one_line(": ".join(part for part in (name, text) if part))


def place_of(error: BaseException, otherwise: str) -> str:
    """Return, as one line, an exception's type and where it was raised, or `otherwise` when nothing says where.

    Nothing of its message: those of libraries hold URLs, tokens and arguments.
    """
    frames = traceback.extract_tb(error.__traceback__)
    place = otherwise
    if frames:
        place = f"at {Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name}"
    return one_line(f"{type(error).__name__} {place}")
