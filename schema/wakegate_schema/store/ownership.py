"""Which process a store belongs to."""

import os

from wakegate_schema.store.errors import StoreUnavailable


class Ownership:
    """Held by the process that opened the store; a fork has neither its threads nor a right to its connections."""

    def __init__(self) -> None:
        """Remember this process."""
        self._process = os.getpid()

    def check(self) -> None:
        """Raise `StoreUnavailable` in any other process, where waiting for an answer would never end."""
        if os.getpid() != self._process:
            raise StoreUnavailable(
                "this store was opened before a fork; open one of your own in each process", reason="other_process"
            )
