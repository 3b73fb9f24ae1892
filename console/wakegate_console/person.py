"""Who is at the command line, as transitions name them."""

import os
import pwd

from wakegate_schema.states import OPERATOR


def actor(by: str | None = None) -> str:
    """Return `operator:NAME`: the name that was given, else the user's.

    Args:
        by: what `--by` says; None for the user this process runs as, not by what the environment claims.
    """
    return OPERATOR + (_user() if by is None else by)


def _user() -> str:
    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid-{uid}"
