"""SQL as named, described blocks in files.

A file holds blocks that begin with a line `-- name: the_name`; comment lines may follow, then one statement. The
blocks in `sql/` read the same in every dialect, but for a few words in braces; those that do not are in the dialect's
own folder, under the same names in each. `{batch text, bigint}` stands for the rows of a batch whose columns have these
types, in parentheses. `rows(query, n)` repeats the row placeholder of a batch, written `(...){rows}`, or `(...){items}`
where rows of NULLs may stand among its own, and `row(query, n)` the placeholder of a value, written `(?){row}`; nothing
else is ever put into SQL.
"""

import functools
import re
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

from wakegate_schema.store.dialects import Dialect

_NAME = re.compile(r"^-- name: ([a-z_]+)$", re.MULTILINE)
_ROW = re.compile(r"(\([?, ]+\))\{(?:rows|items)\}")


def load(package: str, *folders: str) -> Mapping[str, str]:
    """Return every block of a package folders' `.sql` files, by name. Raises ValueError for a name used twice."""
    queries: dict[str, str] = {}
    for folder in folders:
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


@functools.cache
def load_store(dialect: Dialect) -> Mapping[str, str]:
    """Return every block of the store, as the dialect's driver takes it."""
    blocks = load("wakegate_schema", "sql", f"sql/{dialect.name}")
    return MappingProxyType({name: dialect.say(block) for name, block in blocks.items()})


@functools.lru_cache(maxsize=1024)
def rows(query: str, count: int) -> str:
    """Return the query with its row placeholder repeated `count` times."""
    return _ROW.sub(lambda match: ", ".join([match.group(1)] * count), query)


def takes_more(query: str) -> bool:
    """Return whether rows of NULLs may stand among those of the query's batch: they match nothing."""
    return "{items}" in query


def row(query: str, width: int) -> str:
    """Return the query with a placeholder for each of a row's `width` values."""
    return query.replace("(?){row}", f"({', '.join('?' * width)})")


def statements(script: str) -> list[str]:
    """Split a migration into its statements.

    One ends at the end of a line: a trigger of SQLite's with `END;`, anything else with a semicolon that is not
    between two `$$`.
    """
    found: list[str] = []
    lines: list[str] = []
    for line in script.splitlines():
        if (line.lstrip().startswith("--") and "$$" not in line) or not (line.strip() or lines):
            continue
        lines.append(line)
        if _is_end(lines):
            found.append("\n".join(lines).strip().removesuffix(";"))
            lines = []
    if any(line.strip() for line in lines):
        raise ValueError("the script ends inside a statement")
    return found


def _is_end(lines: list[str]) -> bool:
    if sum(line.count("$$") for line in lines) % 2:
        return False
    body = lines[0].startswith("CREATE TRIGGER") and any(line == "BEGIN" for line in lines)
    return lines[-1] == "END;" if body else lines[-1].endswith(";")
