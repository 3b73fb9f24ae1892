"""A harness that gets the gate's permission and stands still before its call: `killed_harness.py URL TOKEN KEY`."""

import sys
import time

from agentapprovalprotocol import Call, Client, Gate

if __name__ == "__main__":
    url, token, key = sys.argv[1:]
    verdict = Gate(Client(url, token)).check(Call(key, "at_once", {"amount": 4900}))
    print("allowed" if verdict else verdict, flush=True)  # noqa: T201
    time.sleep(60)
