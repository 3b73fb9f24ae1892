"""Receivers: several processes that share one public socket, kept running by one that serves nothing itself."""

import os
import socket
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from wakegate_console import child
from wakegate_console.relay import relaying
from wakegate_console.supervision import Program, supervise
from wakegate_receiver.binding import CannotListen, bind
from wakegate_receiver.listener import BACKLOG
from wakegate_receiver.passed import sort_out
from wakegate_receiver.sharing import Share
from wakegate_receiver.stopping import longest_stop
from wakegate_schema.addresses import Address
from wakegate_schema.passed_sockets import PassedSocket, take_passed_sockets
from wakegate_schema.service_manager import ServiceManager
from wakegate_schema.settings import Settings

SUPERVISOR_S: Final = 2.0
"""Seconds that the supervisor takes after its processes have ended."""


async def run_receivers(
    settings: Settings, arguments: Sequence[str], announce: Callable[[], None], processes: int
) -> None:
    """Run so many receiver processes until SIGTERM or SIGINT.

    This process binds the public socket, unless systemd passed it, and opens nothing else: no store, no key. A process
    that dies is told of and started again, later each time.

    Args:
        settings: of all of them.
        arguments: what a child needs to read the same settings.
        announce: called once all take webhooks.
        processes: how many.

    Raises:
        CannotListen: the public address cannot be had.
        CannotStart: one of them said that it cannot; the others were stopped first.
        GaveUp: one of them crashes again and again; the others were stopped first.
    """
    manager, passed = ServiceManager.take(os.environ), take_passed_sockets(os.environ)
    with ExitStack() as stack:
        public, others = _sockets(stack, settings, passed)
        doing = f"taking webhooks at {_url(settings, public)} in {processes} processes"
        tallies = tuple(stack.enter_context(tempfile.TemporaryFile()).fileno() for _ in range(processes))
        own = (public.fileno(),)
        leading = (*own, *(each.fileno() for each in others))
        shares = [Share(number, own if number > 1 else leading, tallies) for number in range(1, processes + 1)]
        relay = stack.enter_context(relaying(manager, [share.name for share in shares], doing))
        programs = [
            Program(
                share.name,
                child.command(*arguments, "receiver"),
                announces=True,
                environment=share.environment() | (relay.environment(share.name) if relay else {}),
                descriptors=share.descriptors,
            )
            for share in shares
        ]

        def stopping() -> None:
            """From now on who connects is refused at once, as by a receiver that stops by itself."""
            public.close()
            longest = longest_stop(settings.shutdown_timeout) + SUPERVISOR_S
            manager.stopping("stopping: answering what was begun", longest)

        await supervise(programs, ready=announce, stopping=stopping)


def _sockets(
    stack: ExitStack, settings: Settings, passed: Sequence[PassedSocket]
) -> tuple[socket.socket, list[socket.socket]]:
    """Return the public socket, which listens, and the others that were passed."""
    for each in passed:
        stack.enter_context(each.socket)
    given = sort_out(passed, settings)
    if given.public is not None:
        return given.public, [each.socket for each in passed if each.socket is not given.public]
    public = stack.enter_context(bind(settings.listen))
    try:
        public.listen(BACKLOG)
    except OSError as error:
        raise CannotListen.at("WAKEGATE_LISTEN", settings.listen, error) from error
    return public, [each.socket for each in passed]


def _url(settings: Settings, public: socket.socket) -> str:
    """Return the URL of the events path, with the port that the system chose."""
    host, port = public.getsockname()[:2]
    scheme = "http" if settings.tls_cert_file is None else "https"
    return f"{scheme}://{Address(host, port)}{settings.events_path}"
