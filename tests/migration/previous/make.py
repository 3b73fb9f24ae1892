"""Make `wakegate_schema.zip`, the previous release's package, of a tree that holds that release.

    git worktree add /tmp/before v0.2.0
    python tests/migration/previous/make.py /tmp/before

Before a release is made, its own tree is the one to take; the tests then hold the next migrations to it.
"""

import sys
import zipfile
from pathlib import Path

PACKAGE = "wakegate_schema"
OUT = Path(__file__).with_name(f"{PACKAGE}.zip")
EPOCH = (1980, 1, 1, 0, 0, 0)
"""When every file in it was made: the same tree gives the same bytes."""


def main(tree: Path) -> None:
    """Write the package's Python and SQL, sorted."""
    root = tree / "schema"
    with zipfile.ZipFile(OUT, "w") as archive:
        for path in sorted((root / PACKAGE).rglob("*")):
            if path.suffix in (".py", ".sql"):
                entry = zipfile.ZipInfo(path.relative_to(root).as_posix(), EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, path.read_bytes(), compresslevel=9)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
