"""SQL as named, described blocks in files.

A file holds blocks that begin with a line `-- name: the_name`; comment lines may follow, then one statement.
`rows(query, n)` repeats the row placeholder of a batch, written `(...){rows}`; nothing else is ever put into SQL.
"""

import re
from collections.abc import Mapping
from importlib.resources import files

_NAME = re.compile(r"^-- name: ([a-z_]+)$", re.MULTILINE)
_ROW = re.compile(r"(\([?, ]+\))\{rows\}")


def load(package: str, folder: str) -> Mapping[str, str]:
    """Return every block of a package folder's `.sql` files, by name. Raises ValueError for a name used twice."""
    queries: dict[str, str] = {}
    for file in sorted(files(package).joinpath(folder).iterdir(), key=lambda item: item.name):
        if not file.name.endswith(".sql"):
            continue
        parts = _NAME.split(file.read_text(encoding="utf-8"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            if name in queries:
                raise ValueError(f"two SQL blocks are named {name} in {folder}")
            lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
            queries[name] = "\n".join(lines).strip().removesuffix(";")
    return queries


def rows(query: str, count: int) -> str:
    """Return the query with its row placeholder repeated `count` times."""
    return _ROW.sub(lambda match: ", ".join([match.group(1)] * count), query)


def statements(script: str) -> list[str]:
    """Split a migration into its statements; a trigger's body ends with a line `END;`."""
    found: list[str] = []
    lines: list[str] = []
    for line in script.splitlines():
        if line.lstrip().startswith("--") or not (line.strip() or lines):
            continue
        lines.append(line)
        trigger = lines[0].startswith("CREATE TRIGGER")
        if line == "END;" if trigger else line.endswith(";"):
            found.append("\n".join(lines).strip().removesuffix(";"))
            lines = []
    if any(line.strip() for line in lines):
        raise ValueError("the script ends inside a statement")
    return found
