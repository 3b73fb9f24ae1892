"""Who is at the command line, as transitions name them."""

import os
import pwd


def actor() -> str:
    """Return `operator:NAME`, by the user this process runs as and not by what the environment claims."""
    uid = os.getuid()
    try:
        return f"operator:{pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"operator:uid-{uid}"
