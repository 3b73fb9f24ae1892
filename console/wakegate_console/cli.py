"""The `wakegate` command: its group, its common options, and how every error becomes one line."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from wakegate_console.context import Context
from wakegate_console.lazy import Entry, LazyGroup
from wakegate_console.text import describe, printable
from wakegate_schema.errors import WakegateError

FINE, BAD, USAGE = 0, 1, 2
"""Exit codes: fine; the thing asked about is bad; usage or settings (DESIGN, "Interfaces")."""

INTERRUPTED, PIPE_CLOSED = 130, 141
"""What a shell shows for a process that SIGINT or SIGPIPE ended."""

ENTRIES = {
    "demo": Entry("wakegate_console.demo.command", "demo", "Run the whole loop on this machine and check it."),
    "init": Entry("wakegate_console.init", "init", "Make a folder to develop in, or with --system a deployment."),
    "receiver": Entry("wakegate_console.services", "receiver", "Run the receiver until it is told to stop."),
    "worker": Entry("wakegate_console.services", "worker", "Run the worker until it is told to stop."),
    "provider": Entry("wakegate_console.provider", "provider", "Run the small approval provider, or decide in it."),
    "up": Entry("wakegate_console.services", "up", "Run receiver and worker together, restarting what crashes."),
    "pool": Entry("wakegate_console.pool", "pool", "Look at the workers, and at what each can run."),
    "instance": Entry("wakegate_console.instance", "instance", "Make, import, list and retire instances."),
    "harness": Entry("wakegate_console.harness", "harness", "Say which harness may use which instances."),
    "execution": Entry("wakegate_console.execution", "execution", "Look at saved calls, and settle them by hand."),
    "wake": Entry("wakegate_console.wake", "wake", "Look at what harnesses are told, and tell them again."),
    "notification": Entry("wakegate_console.notification", "notification", "Look at the notifications received."),
    "refusal": Entry("wakegate_console.refusal", "refusal", "Look at what the receiver has refused."),
    "verify": Entry("wakegate_console.verify", "verify", "Check one captured delivery offline and say why."),
    "clock": Entry("wakegate_console.clock", "clock", "Look at the hosts' clock marks, and reset one."),
    "doctor": Entry(
        "wakegate_console.doctor.command", "doctor", "Say what is wrong with this installation, and what to do."
    ),
    "db": Entry("wakegate_console.db", "db", "Look after the store."),
}


@click.command(cls=LazyGroup, entries=ENTRIES, name="wakegate")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Settings file; else $WAKEGATE_CONFIG, else ./wakegate.toml. WAKEGATE_* variables go over it.",
)
@click.version_option(package_name="wakegate", message="wakegate %(version)s")
@click.pass_context
def wakegate(ctx: click.Context, config: Path | None) -> None:
    """Receive signed approval notifications and resume suspended tool calls: once, and only when approved.

    Exit codes: 0 fine, 1 the thing asked about is bad, 2 usage or settings.
    """
    ctx.obj = Context(config)


def main(arguments: Sequence[str] | None = None, heard: Callable[[str], None] | None = None) -> int:
    """Run the command line and return its exit code; an error is one line on standard error.

    Args:
        arguments: without the program's name; `sys.argv` unless given.
        heard: is told each line of an error too.
    """
    code, message = _run(arguments)
    for line in map(printable, message.splitlines()):
        click.echo(f"wakegate: {line}", err=True)
        if heard is not None:
            heard(line)
    return code


def _run(arguments: Sequence[str] | None) -> tuple[int, str]:
    """Run the command line; return its exit code and what is wrong, '' for nothing."""
    try:
        with wakegate.make_context("wakegate", list(sys.argv[1:] if arguments is None else arguments)) as context:
            wakegate.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code, ""
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return USAGE, ""
    except click.UsageError as error:
        return USAGE, error.format_message() + _hint(error)
    except click.ClickException as error:
        return BAD, error.format_message()
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED, ""
    except WakegateError as error:
        return _exit_code(error), str(error)
    except BrokenPipeError:
        _silence_stdout()
        return PIPE_CLOSED, ""
    except OSError as error:
        _silence_stdout()
        return BAD, describe(error)
    return FINE, ""


def _hint(error: click.UsageError) -> str:
    return "" if error.ctx is None else f" (see: {error.ctx.command_path} --help)"


def _exit_code(error: WakegateError) -> int:
    """Return 2 for what is wrong with the settings and what they name, 1 for everything else."""
    from wakegate_console.faults import SETTING_FAULTS

    return USAGE if isinstance(error, SETTING_FAULTS) or error.reason == "extra_missing" else BAD


def _silence_stdout() -> None:
    """Nobody reads any more: let what is still buffered go nowhere, without a word at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
