"""`wakegate instance rotate` and `delete`: what changes at the provider too."""

import asyncio
from pathlib import Path

import click

from wakegate_console.context import Context, pass_context
from wakegate_console.deletion import delete
from wakegate_console.keys_in_use import receiver_key
from wakegate_console.parameters import CALLED, DURATION, WEBHOOK_URL, by_provider
from wakegate_console.person import actor
from wakegate_console.provisioner_token import provisioner_token, token_file_option, wait_aloud, wait_option
from wakegate_console.roster import find
from wakegate_console.rotation import Rotation, rotate
from wakegate_schema import clock, timestamps
from wakegate_schema.clock import HOUR, MINUTE
from wakegate_schema.secret_files import load_bearer_token
from wakegate_schema.store import open_store

OVERLAP = 15 * MINUTE
LONGEST_OVERLAP = 24 * HOUR


@click.command("rotate")
@click.argument("which", type=CALLED, metavar="INSTANCE")
@token_file_option
@click.option("--url", type=WEBHOOK_URL, metavar="HTTPS_URL", help="The receiver's URL, if it is to be another one.")
@click.option(
    "--overlap",
    type=DURATION,
    metavar="DURATION",
    help="How long what the old secret signs is still taken; 15m unless given, at most 24h.",
)
@click.option(
    "--now", "at_once", is_flag=True, help="Take nothing more that the old secret signs: it is known to others."
)
@wait_option
@by_provider
@pass_context
def rotate_command(
    context: Context,
    which: str,
    provisioner_token_file: Path,
    url: str | None,
    overlap: int | None,
    at_once: bool,
    seconds: float,
    provider_url: str | None,
) -> None:
    """Replace an instance's registration and signing secret.

    The provider challenges the receiver meanwhile, which must be running. Interrupted or failed, the same
    command goes on where it was, and what was in force still is.
    """
    if at_once and overlap is not None:
        raise click.UsageError("Options '--overlap' and '--now' exclude each other.")
    if overlap is not None and overlap > LONGEST_OVERLAP:
        raise click.BadParameter("is over 24h.", param_hint="--overlap")
    settings = context.settings()
    wait = wait_aloud(seconds)
    wanted = Rotation(url, 0 if at_once else overlap or OVERLAP, settings.store.name)

    async def work() -> None:
        async with await open_store(settings.store, mode="use") as store:
            entry = await find(store, which, provider_url)
            token = await provisioner_token(provisioner_token_file, entry.provider, wait)
            async with receiver_key(settings, store) as key:
                done = await rotate(store, key, entry, wanted, token, clock.now, wait)
        end = "what the old one signs is refused" if at_once else f"old one taken until {timestamps.render(done.until)}"
        word = "a rotation begun before is finished, registration" if done.resumed else "rotated to registration"
        click.echo(f"{entry.name}: {word} {done.registration_id}; {end}")

    asyncio.run(work())


@click.command("delete")
@click.argument("which", type=CALLED, metavar="INSTANCE")
@token_file_option
@by_provider
@pass_context
def delete_command(context: Context, which: str, provisioner_token_file: Path, provider_url: str | None) -> None:
    """Delete an instance at its provider, and give it up here.

    Abandons what is unfinished and erases the credential. Interrupted, the same command goes on where it was.
    """
    settings = context.settings()
    token = load_bearer_token(provisioner_token_file, "the provisioner token")

    async def work() -> None:
        async with await open_store(settings.store, mode="use") as store:
            entry = await find(store, which, provider_url)
            known, abandoned = await delete(store, entry, token, actor(), clock.now())
        there = "deleted at the provider" if known else "unknown at the provider, deleted before perhaps"
        click.echo(f"{entry.name} {there} and retired here; executions abandoned: {abandoned}")

    asyncio.run(work())
