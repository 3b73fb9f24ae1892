"""Text for a terminal or a log: one line, nothing in it that could steer either."""


def printable(text: str) -> str:
    """Return text from outside with every character that is not printable written as an escape."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def describe(error: BaseException) -> str:
    """Return an error's message; of the system's errors, the file and what is wrong with it."""
    if not isinstance(error, OSError):
        return str(error)
    reason = error.strerror or str(error) or type(error).__name__
    return reason if error.filename is None else f"{error.filename}: {reason}"
