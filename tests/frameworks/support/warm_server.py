"""`python -m frameworks.support.warm_server NUMBER FRAMEWORK`: forks programs of a harness, its framework imported.

It takes orders as `support.warm_server` does. The programs are `harness` (a verb of `harness.run` and its arguments)
and `sdk_receiver`.
"""

import gc
import os
import signal
import socket
import sys

from frameworks.support.harness import harness, run
from frameworks.support.sdk_receiver import serve
from support.warm_server import orders

if __name__ == "__main__":
    number, framework = sys.argv[1:]
    harness(framework)
    gc.freeze()
    wanted = orders(socket.socket(fileno=int(number)))
    os.chdir(wanted["directory"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if wanted["program"] == "harness":
        run(framework, *wanted["arguments"])
    else:
        serve(framework, *wanted["arguments"])
    sys.stdout.flush()
    os._exit(0)
