"""`python -m support.warm_server NUMBER`: a process that has imported everything and forks programs from itself.

It takes orders from the socket with that number. One is a JSON object, {"program", "arguments", "directory",
"environment", "namespaces"}, and comes with what the program has as standard input, output and error; the answer is
its pid. Another is {"reap": pid}, and the answer is how that program ended. A program runs as it would in a process of
its own, to its end; what still runs when the socket is closed is killed.
"""

import contextlib
import ctypes
import gc
import json
import os
import runpy
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp.connector
import uvloop

import wakegate_adapter.control_calls
from support.processes import import_for_elsewhere
from wakegate_receiver.service import run
from wakegate_schema import clock, logs
from wakegate_schema.settings import load_settings
from wakegate_worker.service import serve

LARGEST = 1 << 20


def orders(through: socket.socket) -> dict[str, Any]:
    """Carry orders out until the end; return in each process that was forked, with what it is to do."""
    living: set[int] = set()
    while True:
        data, descriptors, _, _ = socket.recv_fds(through, LARGEST, 3)
        if not data:
            break
        order = json.loads(data)
        if "reap" in order:
            _, status = os.waitpid(order["reap"], 0)
            living.remove(order["reap"])
            answer = os.waitstatus_to_exitcode(status)
        elif (answer := os.fork()) == 0:
            through.close()
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
                os.close(descriptor)
            return dict(order)
        else:
            living.add(answer)
            for descriptor in descriptors:
                os.close(descriptor)
        through.send(json.dumps(answer).encode())
    for pid in living:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    sys.exit()


def enter(namespace: str) -> None:
    """Go into a namespace, which is a file under /proc."""
    with Path(namespace).open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


def worker() -> None:
    """Run a worker."""
    logs.configure("json")
    uvloop.run(serve(load_settings(None)))


def receiver() -> None:
    """Run a receiver; its URL is the first line on standard output."""
    logs.configure("json")
    run(load_settings(None), ready=lambda url: print(url, flush=True))  # noqa: T201


def script(path: str, *arguments: str) -> None:
    """Run a Python file."""
    sys.argv = [path, *arguments]
    sys.path[0] = str(Path(path).parent)
    runpy.run_path(path, run_name="__main__")


PROGRAMS: dict[str, Callable[..., None]] = {"worker": worker, "receiver": receiver, "script": script}

if __name__ == "__main__":
    assert wakegate_adapter.control_calls  # what scripts import
    import_for_elsewhere()
    gc.freeze()
    wanted = orders(socket.socket(fileno=int(sys.argv[1])))
    for namespace in wanted["namespaces"]:
        enter(namespace)
    os.chdir(wanted["directory"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    clock._set_apart_by = os.environ.get(clock.TEST_CLOCK)  # as it is read at the import
    if os.environ.get("SSL_CERT_FILE"):  # as this is
        aiohttp.connector._SSL_CONTEXT_VERIFIED.load_default_certs()
    PROGRAMS[wanted["program"]](*wanted["arguments"])
