"""A process that takes a store's turn to write, and gives it back when a line comes in: `holder.py URL`."""

import sys

from support.turns import turn

if __name__ == "__main__":
    with turn(sys.argv[1]):
        print("held", flush=True)  # noqa: T201
        sys.stdin.readline()
