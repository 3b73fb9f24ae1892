"""Bounds: what is done under another root stays there, wherever the links in it lead."""

import os
from pathlib import Path

from wakegate_console.installation.steps import CannotInit


def stay_inside(root: Path, path: Path) -> None:
    """Let a path pass that lies under the root when all links are followed.

    Raises:
        CannotInit: it leads out.
    """
    real, top = Path(os.path.realpath(path)), Path(os.path.realpath(root))
    if not real.is_relative_to(top):
        raise CannotInit(f"{path} leads to {real}, which is not in {root}; nothing is made there")
