"""What is in a store, counted by statements of our own and not through the code that is measured."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks.scale.grounds import Ground

_NOTIFICATIONS: Final = "SELECT count(*) FROM notification"
_SUCCEEDED: Final = "SELECT count(*) FROM execution WHERE state = 'succeeded'"


@dataclass(frozen=True, slots=True)
class Rows:
    """Counts of one store."""

    _ask: Callable[[str], int]

    def notifications(self) -> int:
        """How many notifications it holds."""
        return self._ask(_NOTIFICATIONS)

    def succeeded(self) -> int:
        """How many calls have run and their outcome is committed."""
        return self._ask(_SUCCEEDED)


@contextmanager
def rows(at: Ground) -> Iterator[Rows]:
    """Look into a store, over one connection until the block ends."""
    if at.server is not None:
        with at.server.connect("wakegate") as connection:
            yield Rows(lambda statement: int((connection.execute(statement.encode()).fetchone() or (0,))[0]))
        return
    with closing(sqlite3.connect(f"file:{at.folder}/wakegate.db?mode=ro", uri=True)) as own:
        yield Rows(lambda statement: int(own.execute(statement).fetchone()[0]))
