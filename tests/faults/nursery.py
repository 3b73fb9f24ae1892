"""The nursery: a process that has imported everything and forks the services from itself, in milliseconds each.

`python -m faults.nursery` reads one JSON object a line, {"folder", "program", "arguments", "environment"}, answers each
with {"pid"}, and tells with {"pid", "status"} when a child has ended; {"kill": pid, "by": signal} sends one a signal.
A child runs as the program would if it had been started by itself: its own folder, environment, log and event loop.
All children end with the nursery.
"""

import asyncio
import gc
import io
import json
import os
import select
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from faults import harness
from support.processes import import_for_elsewhere
from wakegate_adapter import Adapter
from wakegate_adapter.control_calls import ControlCalls
from wakegate_adapter.log import log
from wakegate_receiver import service as receiver
from wakegate_receiver.control import openapi
from wakegate_receiver.stopping import Stop
from wakegate_schema import fault_points, logs
from wakegate_schema.calls import StoreCalls
from wakegate_schema.errors import WakegateError
from wakegate_schema.settings import Settings, load_settings
from wakegate_schema.store import open_store
from wakegate_worker import service as worker

LOG = "log"
URL = "receiver.url"


def main() -> None:
    """Serve until the input ends."""
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    _rehearse()
    openapi.text()  # made once, not in every receiver
    gc.freeze()
    children: set[int] = set()
    rest = b""
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if 0 in ready:
            data = os.read(0, 65_536)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                _obey(json.loads(line), children)
        if woken in ready:
            os.read(woken, 4096)
        children -= _reap()
    for child in children:
        os.kill(child, signal.SIGKILL)


def _rehearse() -> None:
    """Begin and end both services, so that what is imported and made at first use is not so in every child."""
    with tempfile.TemporaryDirectory(prefix="wg") as folder:
        environment = {
            "WAKEGATE_DATABASE": f"sqlite:///{folder}/wakegate.db",
            "WAKEGATE_CONTROL": f"{folder}/control.sock",
            "WAKEGATE_LISTEN": "127.0.0.1:0",
            "WAKEGATE_TOOLS": "faults.tools",
        }
        logs.configure("json", io.StringIO())
        uvloop.run(_begin_and_end(load_settings(None, environment)))
    import_for_elsewhere()


async def _begin_and_end(settings: Settings) -> None:
    async with receiver.receiving(settings, Stop()), worker.running(settings):
        await asyncio.sleep(0)


def _obey(order: dict[str, Any], children: set[int]) -> None:
    if "kill" not in order:
        children.add(_begin(order))
    elif order["kill"] in children:  # not waited for yet, so the number is still its own
        os.kill(order["kill"], order["by"])


def _begin(order: dict[str, Any]) -> int:
    child = os.fork()
    if child == 0:
        _live(order)
    _tell({"pid": child})
    return child


def _reap() -> set[int]:
    ended = set()
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if child == 0:
            break
        ended.add(child)
        _tell({"pid": child, "status": os.waitstatus_to_exitcode(status)})
    return ended


def _tell(value: dict[str, int]) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


def _live(order: dict[str, Any]) -> None:
    """Become the program, in the child; never returns."""
    status = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir(order["folder"])
        os.environ.update(order["environment"])
        log_file = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor, target in ((os.open(os.devnull, os.O_RDONLY), 0), (log_file, 1), (log_file, 2)):
            os.dup2(descriptor, target)
        logs.configure("json", sys.stderr, program=order["program"])
        PROGRAMS[order["program"]](*order["arguments"])
        status = 0
    except WakegateError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        status = 1
    finally:
        sys.stderr.flush()
        os._exit(status)


def _worker() -> None:
    uvloop.run(worker.serve(load_settings(None)))


def _receiver() -> None:
    receiver.run(load_settings(None), ready=lambda url: _written(Path(URL), url))


def _written(path: Path, text: str) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(path)


def _harness(story: str, key: str) -> None:
    async def live() -> None:
        fault_points.arm(os.environ, log.warning)
        store = await open_store(os.environ["WAKEGATE_DATABASE"], mode="use")
        async with Adapter(StoreCalls(store, lease=harness.LEASE_S), hold=harness.LEASE_S) as adapter:
            await harness.STORIES[story](adapter, key)

    asyncio.run(live())


def _client(story: str, key: str) -> None:
    """A harness over the control API: it holds on whatever becomes of the receiver."""

    async def live() -> None:
        fault_points.arm(os.environ, log.warning)
        calls = ControlCalls(Path(os.environ["WAKEGATE_CONTROL"]))
        await harness.insist(calls.introduce)
        async with harness.Insistent(calls, hold=harness.LEASE_S) as adapter:
            await harness.STORIES[story](adapter, key)

    asyncio.run(live())


PROGRAMS: dict[str, Callable[..., None]] = {
    "worker": _worker,
    "receiver": _receiver,
    "harness": _harness,
    "client": _client,
}

if __name__ == "__main__":
    main()
