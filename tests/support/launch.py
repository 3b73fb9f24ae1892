"""What systemd does before it runs a unit's command, for a process that is no child of systemd. Run as a program.

`launch.py listen 5 PATH UID GID MODE` listens on a socket file and sends it through the socket 5.
`launch.py pass 7,9 COMMAND…` moves the sockets 7 and 9 to where the protocol of socket activation has them.
`launch.py confine JSON COMMAND…` becomes the unit's user, under its mask, its filter and its view of the machine.
"""

import ctypes
import fcntl
import json
import os
import resource
import socket
import sys
from pathlib import Path

FIRST = 3
_ALLOW, _ERRNO_EPERM = 0x7FFF0000, 0x00050001
_PR_SET_NO_NEW_PRIVS, _PR_SET_MDWE = 38, 65
_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 1 << 18
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _READ_ONLY = 442, -100, 0x8000, 1


def listen(through: int, path: str, uid: int, gid: int, mode: str) -> None:
    """Listen on a socket file, as a socket unit says."""
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(fileno=through) as there:
        listening.bind(path)
        Path(path).chmod(int(mode, 8))
        os.chown(path, uid, gid)
        listening.listen(4096)
        socket.send_fds(there, [b"."], [listening.fileno()])


def pass_sockets(numbers: list[int]) -> None:
    """Put the descriptors at 3, 4 … and say so."""
    aside = [fcntl.fcntl(number, fcntl.F_DUPFD, 100) for number in numbers]
    for place, number in enumerate(aside, FIRST):
        os.dup2(number, place, inheritable=True)
        os.close(number)
    os.environ["LISTEN_PID"] = str(os.getpid())
    os.environ["LISTEN_FDS"] = str(len(numbers))


def confine(
    *, uid: int, gid: int, umask: int, directory: str, syscalls: list[str], no_wx: bool, no_network: bool,
    writable: list[str],
) -> None:  # fmt: skip
    """Take away what the unit takes away.

    Args:
        uid: the user, in no group but `gid`.
        gid: the group.
        umask: the unit's.
        directory: the working directory.
        syscalls: what may be called; the rest is EPERM.
        no_wx: whether no memory may be writable and executable.
        no_network: whether there is no network.
        writable: the folders that are not read-only.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_CLONE_NEWNS | (_CLONE_NEWNET if no_network else 0)), "unshare")
    _protect(libc, writable)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    os.umask(umask)
    os.chdir(directory)
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if no_wx:
        libc.prctl(_PR_SET_MDWE, 1, 0, 0, 0)  # where the kernel has it
    _filter(syscalls)


def _protect(libc: ctypes.CDLL, writable: list[str]) -> None:
    """Make everything read-only but for these folders and an empty /tmp."""
    _check(libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "make private")
    for path in writable:
        _check(libc.mount(path.encode(), path.encode(), None, _MS_BIND, None), path)
    _set_read_only(libc, "/", on=True)
    for path in writable:
        _set_read_only(libc, path, on=False)
    _check(libc.mount(b"none", b"/tmp", b"tmpfs", 0, b"mode=1777"), "/tmp")


def _set_read_only(libc: ctypes.CDLL, path: str, *, on: bool) -> None:
    attributes = (ctypes.c_uint64 * 4)(_READ_ONLY if on else 0, 0 if on else _READ_ONLY, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    result = libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, path.encode(), _AT_RECURSIVE, ctypes.byref(attributes), size)
    _check(result, f"mount_setattr {path}")


def _filter(allowed: list[str]) -> None:
    """Let everything but these fail, as `SystemCallFilter=` with `SystemCallErrorNumber=EPERM` does."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_rule_add.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    context = library.seccomp_init(_ERRNO_EPERM)
    for name in allowed:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # below: not on this machine
            library.seccomp_rule_add(context, _ALLOW, number, 0)
    _check(library.seccomp_load(context), "seccomp_load")


def _check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def main() -> None:
    """Do one stage and become the command, if there is one."""
    stage, what, *rest = sys.argv[1:]
    if stage == "listen":
        path, uid, gid, mode = rest
        listen(int(what), path, int(uid), int(gid), mode)
        return
    if stage == "pass":
        pass_sockets([int(number) for number in what.split(",")])
    else:
        confine(**json.loads(Path(what).read_text()))
    os.execvp(rest[0], rest)


if __name__ == "__main__":
    main()
