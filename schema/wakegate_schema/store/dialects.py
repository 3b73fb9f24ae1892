"""The dialects of SQL: how each says what the shared blocks leave to it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_PARAMETER = re.compile(r"(?<!:):([a-z_]+)\b")


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """One database's SQL. A shared block leaves some words to it, in braces; none of them comes from outside."""

    name: str
    """The folder of its own blocks and of its migrations."""
    words: Mapping[str, str]
    """What stands for each word in braces.

    `greatest`, `least`: of two or more values, none of which is NULL. `ordered_join`: a join whose left side is read
    first, and `unindexed`: a column by which no index is to be chosen, where the planner has to be told. `no_bytes`:
    an empty string of bytes.
    """
    named: str | None = None
    """How a named parameter is written, `:name` if None."""
    placeholder: str | None = None
    """How a parameter without a name is written, `?` if None."""

    def say(self, block: str) -> str:
        """Return a block as the driver takes it."""
        for word, said in self.words.items():
            block = block.replace("{" + word + "}", said)
        if self.named is not None:
            block = _PARAMETER.sub(self.named, block)
        if self.placeholder is not None:
            block = block.replace("?", self.placeholder)
        return block


SQLITE = Dialect(
    "sqlite",
    MappingProxyType(
        {"greatest": "MAX", "least": "MIN", "ordered_join": "CROSS JOIN", "no_bytes": "x''", "unindexed": "+"}
    ),
)
POSTGRESQL = Dialect(
    "postgresql",
    MappingProxyType(
        {"greatest": "GREATEST", "least": "LEAST", "ordered_join": "JOIN", "no_bytes": "''::bytea", "unindexed": ""}
    ),
    named=r"%(\1)s",
    placeholder="%b",
)
"""psycopg's parameters; those of a batch go as binary, which costs a third of the time."""
