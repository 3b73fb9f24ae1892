"""A process that takes a store's turn to write, forks, and is killed; the fork lives on: `orphan.py URL`."""

import os
import sys
import time

from support.turns import turn

if __name__ == "__main__":
    with turn(sys.argv[1]):
        if os.fork() == 0:
            print(os.getpid(), flush=True)  # noqa: T201
            sys.stdin.readline()
            os._exit(0)
        time.sleep(60)
