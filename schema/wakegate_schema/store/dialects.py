"""The dialects of SQL: how each says what the shared blocks leave to it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_PARAMETER = re.compile(r"(?<!:):([a-z_]+)\b")
_BATCH = re.compile(r"\{batch ([a-z, ]+)\}")


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """One database's SQL. A shared block leaves some words to it, in braces; none of them comes from outside."""

    name: str
    """The folder of its own blocks and of its migrations."""
    words: Mapping[str, str]
    """What stands for each word in braces.

    `every`: all columns of `execution` that a change returns, without those of the batch that it was joined with.
    `greatest`, `least`: of two or more values, none of which is NULL. `ordered_join`: a join whose left side is read
    first, and `unindexed`: a column by which no index is to be chosen, where the planner has to be told. `no_bytes`:
    an empty string of bytes.
    """
    named: str | None = None
    """How a named parameter is written, `:name` if None."""
    placeholder: str | None = None
    """How a parameter without a name is written, `?` if None."""
    has_arrays: bool = False
    """Whether a batch goes as one array for each column, rather than as one row of values for each item."""

    def say(self, block: str) -> str:
        """Return a block as the driver takes it."""
        block = _BATCH.sub(self._batch, block)
        for word, said in self.words.items():
            block = block.replace("{" + word + "}", said)
        if self.named is not None:
            block = _PARAMETER.sub(self.named, block)
        if self.placeholder is not None:
            block = block.replace("?", self.placeholder)
        return block

    def _batch(self, columns: re.Match[str]) -> str:
        """Return the rows of a batch, of columns of these types, in parentheses."""
        types = columns[1].split(", ")
        if self.has_arrays:
            arrays = ", ".join(f"?::{each}[]" for each in types)
            return f"(SELECT * FROM unnest({arrays}))"  # noqa: S608 (types and placeholders)
        return f"(VALUES ({', '.join('?' * len(types))}){{items}})"


SQLITE = Dialect(
    "sqlite",
    MappingProxyType(
        {
            "every": "*",
            "greatest": "MAX",
            "least": "MIN",
            "ordered_join": "CROSS JOIN",
            "no_bytes": "x''",
            "unindexed": "+",
        }
    ),
)
POSTGRESQL = Dialect(
    "postgresql",
    MappingProxyType(
        {
            "every": "execution.*",
            "greatest": "GREATEST",
            "least": "LEAST",
            "ordered_join": "JOIN",
            "no_bytes": "''::bytea",
            "unindexed": "",
        }
    ),
    named=r"%(\1)s",
    placeholder="%b",
    has_arrays=True,
)
"""psycopg's parameters; those of a batch go as binary, which costs a third of the time."""
