"""The control socket: bound by one receiver at a time, and never taken over from a living one."""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from wakegate_receiver.binding import CannotListen
from wakegate_schema import lock_files
from wakegate_schema.addresses import Address

_MODE: Final = 0o660


@contextmanager
def control_socket(address: Path | Address, passed: socket.socket | None = None) -> Iterator[socket.socket]:
    """Give a bound control socket, not served yet; remove its name afterwards.

    A Unix socket has mode 0660. A lock file beside it (`….lock`, which stays) makes sure that a second receiver
    cannot put its own socket in this one's place; the socket file of a receiver that died is replaced.

    Args:
        address: where.
        passed: what the service manager listens on there already. Its file is the manager's: neither made nor removed.

    Raises:
        CannotListen: another receiver has it (`control_taken`), something else lies there, or it cannot be bound.
    """
    if isinstance(address, Address):
        with passed or _tcp(address) as bound:
            yield bound
        return
    with _locked(address), passed or _unix(address) as bound:
        yield bound


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    name = path.with_name(f"{path.name}.lock")
    try:
        descriptor = lock_files.take(name, 0o600)
    except OSError as error:
        raise CannotListen(f"WAKEGATE_CONTROL: cannot make {name}: {error.strerror}") from error
    if descriptor is None:
        raise CannotListen(
            f"WAKEGATE_CONTROL: another receiver has {path}; stop it, or give this one a socket of its own",
            reason="control_taken",
        )
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _unix(path: Path) -> Iterator[socket.socket]:
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise CannotListen(f"WAKEGATE_CONTROL: {path} exists and is not a socket; move it away")
        path.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bound:
        try:
            bound.bind(str(path))
            # Nobody can connect before `listen`, so no mask is needed between the two.
            path.chmod(_MODE)
        except OSError as error:
            raise CannotListen(f"WAKEGATE_CONTROL: cannot bind {path}: {error.strerror}") from error
        bound.setblocking(False)
        ours = path.lstat()
        try:
            yield bound
        finally:
            with suppress(FileNotFoundError):
                if os.path.samestat(ours, path.lstat()):
                    path.unlink()


@contextmanager
def _tcp(address: Address) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((address.host, address.port))
            bound.listen()  # only this shows that nobody else listens there
        except OSError as error:
            raise CannotListen.at("WAKEGATE_CONTROL", address, error) from error
        bound.setblocking(False)
        yield bound
