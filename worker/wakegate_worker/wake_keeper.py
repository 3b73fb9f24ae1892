"""The keeper: a process of its own that runs one program for one wake, within bounds, and tells how that ended.

A script of the standard library alone, `wake_keeper.py SECONDS HELD DIRECTORY PROGRAM [ARGUMENT]...`, run by the worker
with the environment that the program is to have. Its standard input is a number, a line ending and so many bytes, which
the program gets as its own standard input; then it stays open for as long as somebody wants the answer. HELD is when
the program is ended, by the system's monotonic clock; every further line on standard input is a new such time, so that
a worker that is itself stopped need not be there for it. The answer is one JSON object on standard output: how the
program `ended`, its `status`, the end of what it wrote to standard error, and whether something was `left` that could
not be ended.

Nothing that the program has started outlives it: not when it ends, not past its time, and not when the worker dies,
which closes the input. (docs/decisions/0014)
"""

import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

KEPT = 2048
"""Bytes of standard error whose text is told: the last ones."""
END_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""What tells the keeper to end: whatever would end it by itself, and leave behind what it keeps."""
END_S = 2.0
"""Seconds in which everything that was started has to be gone, once it is killed."""
_LEFT_ALONE = float("-inf")
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(seconds: str, held: str, directory: str, *argv: str) -> None:
    """Keep one program, and tell how it ended."""
    message = _message()
    if message is None:
        return
    with contextlib.suppress(OSError):  # nobody listens any more
        os.write(1, json.dumps(_keep(argv, directory, float(seconds), float(held), message)).encode() + b"\n")


def _keep(argv: tuple[str, ...], directory: str, seconds: float, held: float, message: IO[bytes]) -> dict[str, Any]:
    signals, prctl = _signals(), _prctl()
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    keeper = os.getpid()

    def tie() -> None:
        """In the program's process, before it is the program: it dies with its keeper."""
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(1)

    try:
        child = subprocess.Popen(  # noqa: S603 (what the operator has named)
            argv, cwd=directory, stdin=message, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            start_new_session=True, preexec_fn=tie,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return {"ended": "not_started", "status": 0, "stderr": _why(error, directory), "left": False}
    return _watch(child, signals, time.monotonic() + seconds, held)


def _watch(child: "subprocess.Popen[bytes]", signals: socket.socket, until: float, held: float) -> dict[str, Any]:
    """Wait for the program's end, or end it; then end everything that it has left."""
    tail = bytearray()
    errors = child.stderr.fileno() if child.stderr else -1
    os.set_blocking(errors, False)
    ended, status = "timeout", 0
    with selectors.DefaultSelector() as selector:
        for source in (0, signals, errors):
            selector.register(source, selectors.EVENT_READ)
        while (left := min(until, held) - time.monotonic()) > 0:
            ready = {key.fd for key, _ in selector.select(left)}
            if errors in ready and not _drain(errors, tail):
                selector.unregister(errors)
            if 0 in ready:
                held = _held()
            if held == _LEFT_ALONE or (signals.fileno() in ready and _told_to_end(signals)):
                ended = "left_alone"
                break
            if (done := os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                ended, status = "exited" if done.si_code == os.CLD_EXITED else "killed", done.si_status
                break
    if ended == "timeout" and held < until:
        ended = "not_held"
    _drain(errors, tail)
    return {"ended": ended, "status": status, "stderr": tail.decode("utf-8", "replace"), "left": not _end(child)}


def _held() -> float:
    """Return until when the program may run by the last line that came in."""
    lines = os.read(0, 65_536).split()
    return float(lines[-1]) if lines else _LEFT_ALONE


def _end(child: "subprocess.Popen[bytes]") -> bool:
    """Kill the program's group and everything that has become this process's child; return whether all is gone."""
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
    until = time.monotonic() + END_S
    child.returncode = 0  # reaped here, with all the others
    while time.monotonic() < until:
        for pid in _children():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return True
        time.sleep(0.005)
    return False


def _children() -> list[int]:
    """Return the processes whose parent is this one: what the program had started and left comes to it, too."""
    me, found = os.getpid(), []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int(status.read_text(errors="replace").rpartition(")")[2].split()[1]) == me:
                found.append(int(status.parent.name))
    return found


def _drain(errors: int, tail: bytearray) -> bool:
    """Take some of what was written to standard error, and keep its end; return whether more may come."""
    for _ in range(16):
        try:
            data = os.read(errors, 65_536)
        except BlockingIOError:
            return True
        if not data:
            return False
        tail += data[-KEPT:]
        del tail[:-KEPT]
    return True


def _message() -> IO[bytes] | None:
    """Return the message as a file that the program reads at its leisure, or not at all; None if nobody waits."""
    length = b""
    while not length.endswith(b"\n"):
        digit = os.read(0, 1)
        if not digit:
            return None
        length += digit
    file = _unnamed()
    left = int(length)
    while left:
        data = os.read(0, min(left, 65_536))
        if not data:
            return None
        file.write(data)
        left -= len(data)
    file.seek(0)
    return file


def _unnamed() -> IO[bytes]:
    with contextlib.suppress(AttributeError, OSError):  # not this system's, or forbidden here
        return os.fdopen(os.memfd_create("wake"), "w+b")
    return tempfile.TemporaryFile()


def _signals() -> socket.socket:
    """Return what becomes readable when a child has ended, or when this process is told to end."""
    readable, written = socket.socketpair()
    for end in (readable, written):
        end.setblocking(False)
    for number in (signal.SIGCHLD, *END_SIGNALS):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.set_wakeup_fd(written.detach(), warn_on_full_buffer=False)
    return readable


def _told_to_end(signals: socket.socket) -> bool:
    return any(number in END_SIGNALS for number in signals.recv(4096))


def _prctl() -> Callable[[int, int], object]:
    if sys.platform != "linux":
        return lambda *_: None
    function = ctypes.CDLL(None, use_errno=True).prctl
    return lambda option, value: function(option, value, 0, 0, 0)


def _why(error: Exception, directory: str) -> str:
    if isinstance(error, OSError):
        what = "its directory" if error.filename == directory else "the program"
        return f"{what}: {error.strerror}"
    return type(error).__name__


if __name__ == "__main__":
    main(*sys.argv[1:])
