"""A process that takes the turn to write, and gives it back when a line comes in."""

import sys
from pathlib import Path

from wakegate_schema.store.turn import TurnLock

with TurnLock(Path(sys.argv[1]), mode=0o660):
    print("held", flush=True)  # noqa: T201
    sys.stdin.readline()
