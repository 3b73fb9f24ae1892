"""`wakegate instance`: make, import, list, show and retire instances."""

import asyncio
from pathlib import Path

import click

from wakegate_console import advice, listing, sheet, views
from wakegate_console.context import Context, pass_context
from wakegate_console.credentials import Stored, store_credential
from wakegate_console.keys_in_use import worker_key
from wakegate_console.newcomers import import_command, provision_command
from wakegate_console.parameters import CALLED, MOMENT, SECRET_FILE, by_provider
from wakegate_console.person import actor
from wakegate_console.provider_changes import delete_command, rotate_command
from wakegate_console.roster import Entry, entries, find, give_up, retire
from wakegate_console.table import Column, Row
from wakegate_schema import clock, timestamps
from wakegate_schema.secret_files import load_bearer_token
from wakegate_schema.store import open_store

COLUMNS = (
    Column("instance_id", "INSTANCE", "id", instead="registration_id"),
    Column("name", "NAME", least=12),
    Column("state", "STATE", least=10),
    Column("delivery", "DELIVERY", spare=True),
    Column("credential_expires_at", "EXPIRES", "time"),
    Column("provider", "PROVIDER", least=12),
    Column("reason", "REASON", least=16),
)
REGISTRATION_COLUMNS = (
    Column("registration_id", "REGISTRATION", least=36),
    Column("state", "STATE"),
    Column("in_force", "IN FORCE"),
    Column("verified_at", "VERIFIED", "time"),
    Column("superseded_until", "TAKEN UNTIL", "time"),
    Column("url", "URL", least=20),
)
FIRST = ("instance_id", "registration_id", "name", "state", "reason", "next")


@click.group()
def instance() -> None:
    """Make, import, list and retire instances.

    An instance is the identity at a provider that calls are submitted under.
    """


instance.add_command(provision_command)
instance.add_command(import_command)
instance.add_command(rotate_command)
instance.add_command(delete_command)


@instance.command("credential")
@click.argument("which", type=CALLED, metavar="INSTANCE")
@click.option("--credential-file", type=SECRET_FILE, required=True, metavar="FILE", help="Holds the credential.")
@click.option("--credential-expires-at", type=MOMENT, metavar="TIME", help="When the credential ends (RFC 3339).")
@by_provider
@pass_context
def credential_command(
    context: Context,
    which: str,
    credential_file: Path,
    credential_expires_at: int | None,
    provider_url: str | None,
) -> None:
    """Store an instance's credential.

    It may be the first or a new one; what waited for it goes on. The same one again keeps its known end.
    """
    settings = context.settings()
    token = load_bearer_token(credential_file, "the credential")

    async def work() -> None:
        async with await open_store(settings.store, mode="use") as store, worker_key(settings, store) as key:
            entry = await find(store, which, provider_url)
            stored = await store_credential(store, key, entry, token, credential_expires_at, clock.now())
        click.echo(f"{entry.name}: {_told(stored)}")

    asyncio.run(work())


@instance.command("list")
@listing.listing_options
@pass_context
def list_command(context: Context, as_json: bool, limit: int | None) -> None:
    """List instances, the latest first.

    Registrations that have no instance yet are listed too, by their own ids.
    """
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.store, mode="read") as store:
            await listing.write(
                listing.several([entry.view() for entry in await entries(store)][:limit]),
                COLUMNS,
                as_json=as_json,
                nothing="No instances.",
                colour=_colour,
            )

    asyncio.run(work())


@instance.command("show")
@click.argument("which", type=CALLED, metavar="INSTANCE")
@by_provider
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_context
def show_command(context: Context, which: str, provider_url: str | None, as_json: bool) -> None:
    """Show an instance; never a secret.

    INSTANCE is its id, its name, its registration's id, or the beginning of an id.
    """
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.store, mode="read") as store:
            entry = await find(store, which, provider_url)
        view = entry.view()
        registrations = [views.registration(registration) for registration in entry.registrations]
        if as_json:
            sheet.write_object({**view, "registrations": registrations})
            return
        sheet.write_fields({**view, "next": _advice(entry)}, FIRST, _colour(view))
        sheet.write_section("registrations", registrations, REGISTRATION_COLUMNS)

    asyncio.run(work())


@instance.command("retire")
@click.argument("which", type=CALLED, metavar="INSTANCE")
@by_provider
@pass_context
def retire_command(context: Context, which: str, provider_url: str | None) -> None:
    """Give up an instance here.

    Abandons what is unfinished and erases the credential. The provider is not told.
    With the id of a registration that a rotation has not put in force yet, gives up that rotation alone.
    """
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.store, mode="use") as store:
            entry = await find(store, which, provider_url)
            registration = entry.registration(which)
            if registration is not None and registration != entry.in_force:
                await give_up(store, registration, clock.now())
                click.echo(f"{entry.name}: the rotation to registration {registration.registration_id} is given up")
                return
            abandoned = await retire(store, entry, actor(), clock.now())
        click.echo(f"{entry.name} retired; executions abandoned: {abandoned}")

    asyncio.run(work())


def _colour(row: Row) -> str | None:
    return {"parked": "red", "expected": "yellow", "verified": "yellow"}.get(row["state"])


def _advice(entry: Entry) -> str | None:
    if entry.replacement is not None:
        return advice.for_rotation(entry.name, entry.replacement.registration_id)
    if entry.instance is not None:
        return advice.for_instance(entry.instance)
    return advice.for_registration(entry.registrations[0].state, entry.name)


def _told(stored: Stored) -> str:
    word = "credential stored again, the same" if stored.same else "credential stored"
    if stored.expires_at is not None:
        return f"{word}, good until {timestamps.render(stored.expires_at)}"
    if stored.forgotten is not None:
        return (
            f"{word}; nobody has said when it ends (the one before: {timestamps.render(stored.forgotten)}),"
            " --credential-expires-at does"
        )
    return word
