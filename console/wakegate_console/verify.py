"""`wakegate verify`: check one captured delivery offline, and say why it passes or fails."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from wakegate_console import explanation, sheet
from wakegate_console.capture import MAX_BYTES, Capture, MalformedCapture, from_parts, from_request, header_lines
from wakegate_console.context import Context, pass_context
from wakegate_console.explanation import Known
from wakegate_console.inspection import Rules, Secrets, inspect
from wakegate_console.parameters import MOMENT, SECRET_FILE
from wakegate_console.screen import put, shown
from wakegate_console.table import Column
from wakegate_receiver.keyring import Keyring
from wakegate_receiver.messages import Message
from wakegate_receiver.refusals_file import read_refusals
from wakegate_schema import clock, keys, logs
from wakegate_schema.records import Registration
from wakegate_schema.secret_files import load_signing_secret
from wakegate_schema.settings import Settings
from wakegate_schema.store import open_store

CHECKS = (Column("check", "CHECK"), Column("result", "RESULT"), Column("reason", "REASON", least=24))
FIRST = ("verdict", "reason", "answer", "told", "situation")
BYTES: Final = click.Path(path_type=Path, allow_dash=True)


@dataclass(frozen=True, slots=True)
class Source:
    """Where the secrets come from, and what the store knows besides."""

    secrets_for: Callable[[Message | None], Secrets]
    known: Known


@click.command()
@click.option("--body", "body_file", type=BYTES, metavar="FILE", help="The exact bytes of the body; - for stdin.")
@click.option("--header", "headers", multiple=True, metavar="TEXT", help="A header, `name: value`; repeatable.")
@click.option("--headers", "headers_file", type=BYTES, metavar="FILE", help="A block of headers.")
@click.option("--request", "request_file", type=BYTES, metavar="FILE", help="A whole request, instead of these.")
@click.option("--secret-file", type=SECRET_FILE, metavar="FILE", help="The signing secret; else those in the store.")
@click.option("--at", type=MOMENT, metavar="TIME", help="When it was received, as RFC 3339; now unless given.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_context
def verify(
    context: Context,
    body_file: Path | None,
    headers: tuple[str, ...],
    headers_file: Path | None,
    request_file: Path | None,
    secret_file: Path | None,
    at: int | None,
    as_json: bool,
) -> None:
    """Check one captured delivery offline and say why.

    Nothing is written, and neither a secret nor the body is shown. Exit code 1 for a delivery that does not pass.
    """
    if (body_file is None) == (request_file is None):
        raise click.UsageError("give the body with --body, or a whole request with --request")
    if request_file is not None and (headers or headers_file is not None):
        raise click.UsageError("--request brings its own headers")
    lines = [*headers, *(header_lines(_read(headers_file)) if headers_file is not None else ())]
    data = _read(body_file or request_file)
    settings = context.settings()
    logs.configure("console", level="error")  # a secret that cannot be unsealed is told of on standard error
    now = clock.now()

    async def work() -> bool:
        source = await _source(settings, secret_file)
        capture = _capture(data, lines, whole=request_file is not None)
        rules = Rules(settings.events_path, settings.max_body_bytes)
        found = await inspect(capture, rules, source.secrets_for, now if at is None else at)
        view = explanation.explain(found, capture, source.known, at=at, now=now)
        _show(view, as_json=as_json)
        return found.reason is None

    if not asyncio.run(work()):
        raise click.exceptions.Exit(1)


def _read(path: Path | None) -> bytes:
    """Return a file's bytes, those of standard input for `-`."""
    if path is None or str(path) == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    else:
        try:
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise click.UsageError(f"{path}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise click.UsageError(f"{path} is over {MAX_BYTES} bytes")
    return data


def _capture(data: bytes, lines: list[str], *, whole: bool) -> Capture | None:
    if whole:
        return from_request(data)
    try:
        return from_parts(lines, data)
    except MalformedCapture as error:
        raise click.UsageError(str(error)) from None


async def _source(settings: Settings, secret_file: Path | None) -> Source:
    """Return the secret of a file, or those of the store, unsealed with the receiver's key."""
    if secret_file is not None:
        secret = load_signing_secret(secret_file, "the signing secret")
        return Source(lambda _: {str(secret_file): secret}, Known())
    sealer = keys.load_key(settings.receiver_key_path, "receiver_key_file")
    async with await open_store(settings.store, mode="read") as store:
        registrations = await store.registrations()

    async def read() -> list[Registration]:
        return registrations

    keyring = Keyring(sealer, read)
    await keyring.renew()
    everyone = {registration.registration_id: registration for registration in registrations}
    return Source(
        lambda message: {} if message is None else _named(keyring, message),
        Known(everyone, keyring, _refusals(settings)),
    )


def _refusals(settings: Settings) -> tuple[dict[str, Any], ...]:
    """Return what the receiver has refused lately; nothing where that may not be read, because it only adds a hint."""
    try:
        return tuple(read_refusals(settings.refusals_path))
    except OSError:
        return ()


def _named(keyring: Keyring, message: Message) -> Secrets:
    return {signer.registration_id: secret for signer, secret in keyring.secrets_for(message).items()}


def _show(view: explanation.View, *, as_json: bool) -> None:
    if as_json:
        sheet.write_object(view)
        return
    tables = ("checks", "near_misses")
    sheet.write_fields({name: value for name, value in view.items() if name not in tables}, FIRST)
    sheet.write_section("checks", view["checks"], CHECKS)
    if view["near_misses"]:
        put("\nthe signature that was sent would be right if")
    for miss in view["near_misses"]:  # whole, however narrow the terminal is
        put(f"  {shown(miss['explanation'])}\n    secret: {shown(miss['secret'])}")
