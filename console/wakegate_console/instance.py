"""`wakegate instance`: make, import, list, show and retire instances."""

import asyncio
from pathlib import Path

import click

from wakegate_console import listing, views
from wakegate_console.context import Context, pass_context
from wakegate_console.enrolment import Import, enrol, replace_credential
from wakegate_console.listing import Column
from wakegate_console.parameters import IDENTIFIER, MOMENT, NAME, PROVIDER_URL, SECRET_FILE, WEBHOOK_URL
from wakegate_console.person import actor
from wakegate_console.provisioning import Keys, Order, provision
from wakegate_console.roster import entries, find, retire
from wakegate_schema import clock
from wakegate_schema.keys import ensure_key
from wakegate_schema.secret_files import load_bearer_token, load_signing_secret
from wakegate_schema.settings import Settings
from wakegate_schema.store import open_store

COLUMNS = (
    Column("instance_id", "INSTANCE", 36),
    Column("name", "NAME", 20),
    Column("state", "STATE", 8),
    Column("delivery", "DELIVERY", 8),
    Column("credential_expires_at", "CREDENTIAL UNTIL", 20, is_time=True),
    Column("provider", "PROVIDER", 30),
    Column("reason", "REASON", 20),
)
REGISTRATION_COLUMNS = (
    Column("registration_id", "REGISTRATION", 36),
    Column("state", "STATE", 10),
    Column("verified_at", "VERIFIED", 20, is_time=True),
    Column("url", "URL", 20),
)

by_provider = click.option(
    "--provider-url", type=PROVIDER_URL, metavar="URL", help="Which provider's, if two have an instance of that name."
)


@click.group()
def instance() -> None:
    """Make, import, list and retire instances.

    An instance is the identity at a provider that calls are submitted under.
    """


@instance.command("provision")
@click.option("--provider-url", type=PROVIDER_URL, required=True, metavar="URL", help="The provider's base URL.")
@click.option(
    "--provisioner-token-file",
    type=SECRET_FILE,
    required=True,
    metavar="FILE",
    help="Holds the provisioner token; nobody else may read it.",
)
@click.option(
    "--url",
    type=WEBHOOK_URL,
    required=True,
    metavar="HTTPS_URL",
    help="The receiver's URL, as the provider reaches it: https://…/aap/events.",
)
@click.option("--name", type=NAME, required=True, metavar="NAME", help="What to call the instance.")
@pass_context
def provision_command(context: Context, provider_url: str, provisioner_token_file: Path, url: str, name: str) -> None:
    """Create an instance at a provider.

    The provider challenges the receiver meanwhile, which must be running. Interrupted or failed, the same
    command goes on where it was.
    """
    settings = context.settings()
    token = load_bearer_token(provisioner_token_file, "the provisioner token")

    async def work() -> None:
        async with await open_store(settings.database, mode="service") as store:
            done = await provision(store, _keys(settings), Order(provider_url, url, name), token, clock.now())
        word = "provisioned as" if done.new else "was provisioned before, as"
        click.echo(f"{name} {word} {done.instance.instance_id}")

    asyncio.run(work())


@instance.command("import")
@click.option("--provider-url", type=PROVIDER_URL, required=True, metavar="URL", help="The provider's base URL.")
@click.option("--registration-id", type=IDENTIFIER, metavar="ID", help="The registration made elsewhere.")
@click.option("--secret-file", type=SECRET_FILE, metavar="FILE", help="Holds its signing secret (whsec_…).")
@click.option("--instance-id", type=IDENTIFIER, metavar="ID", help="The instance, if it exists already.")
@click.option("--credential-file", type=SECRET_FILE, metavar="FILE", help="Holds the instance's credential.")
@click.option("--credential-expires-at", type=MOMENT, metavar="TIME", help="When the credential ends (RFC 3339).")
@click.option("--name", type=NAME, metavar="NAME", help="What to call it; else the instance or registration id.")
@pass_context
def import_command(
    context: Context,
    provider_url: str,
    registration_id: str | None,
    secret_file: Path | None,
    instance_id: str | None,
    credential_file: Path | None,
    credential_expires_at: int | None,
    name: str | None,
) -> None:
    """Take over what was provisioned elsewhere.

    It may be a registration, an instance, or both.
    A registration alone waits for the provider's challenge; `instance credential` completes it. An instance
    without a registration has no webhook: the worker asks the provider itself.
    """
    _together("--registration-id", registration_id, "--secret-file", secret_file)
    _together("--instance-id", instance_id, "--credential-file", credential_file)
    if registration_id is None and instance_id is None:
        raise click.UsageError("Missing option '--registration-id' or '--instance-id': there is nothing to import.")
    if credential_expires_at is not None and credential_file is None:
        raise click.UsageError("Option '--credential-expires-at' needs '--credential-file'.")
    settings = context.settings()
    wanted = Import(
        provider=provider_url,
        name=name or instance_id or registration_id or "",
        registration_id=registration_id,
        secret=None if secret_file is None else load_signing_secret(secret_file, "the signing secret"),
        instance_id=instance_id,
        credential=None if credential_file is None else load_bearer_token(credential_file, "the credential"),
        credential_expires_at=credential_expires_at,
    )

    async def work() -> None:
        async with await open_store(settings.database, mode="service") as store:
            await enrol(store, _keys(settings), wanted, clock.now())
        click.echo(f"{wanted.name} imported: {instance_id or registration_id}")

    asyncio.run(work())


@instance.command("credential")
@click.argument("instance_id", type=IDENTIFIER, metavar="INSTANCE_ID")
@click.option("--credential-file", type=SECRET_FILE, required=True, metavar="FILE", help="Holds the credential.")
@click.option("--credential-expires-at", type=MOMENT, metavar="TIME", help="When the credential ends (RFC 3339).")
@by_provider
@pass_context
def credential_command(
    context: Context,
    instance_id: str,
    credential_file: Path,
    credential_expires_at: int | None,
    provider_url: str | None,
) -> None:
    """Store an instance's credential.

    It may be the first or a new one; what waited for it goes on.
    """
    settings = context.settings()
    token = load_bearer_token(credential_file, "the credential")

    async def work() -> None:
        key = ensure_key(settings.worker_key_path)
        async with await open_store(settings.database, mode="use") as store:
            entry = await find(store, instance_id, provider_url)
            await replace_credential(store, key, entry, instance_id, token, credential_expires_at, clock.now())
        click.echo(f"{entry.name}: credential stored")

    asyncio.run(work())


@instance.command("list")
@listing.listing_options
@pass_context
def list_command(context: Context, as_json: bool, limit: int | None) -> None:
    """List instances, the oldest first.

    Registrations that have no instance yet are listed too.
    """
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.database, mode="read") as store:
            await listing.write(
                listing.several([entry.view() for entry in await entries(store)][:limit]),
                COLUMNS,
                as_json=as_json,
                nothing="No instances.",
                colour=lambda row: "red" if row["state"] == "parked" else None,
            )

    asyncio.run(work())


@instance.command("show")
@click.argument("which", metavar="INSTANCE")
@by_provider
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_context
def show_command(context: Context, which: str, provider_url: str | None, as_json: bool) -> None:
    """Show an instance; never a secret.

    INSTANCE is its id, its name, or its registration's id.
    """
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.database, mode="read") as store:
            entry = await find(store, which, provider_url)
        registrations = [views.registration(registration) for registration in entry.registrations]
        if as_json:
            listing.write_object({**entry.view(), "registrations": registrations})
            return
        listing.write_fields(entry.view())
        listing.write_section("registrations", registrations, REGISTRATION_COLUMNS)

    asyncio.run(work())


@instance.command("retire")
@click.argument("which", metavar="INSTANCE")
@by_provider
@pass_context
def retire_command(context: Context, which: str, provider_url: str | None) -> None:
    """Give up an instance here.

    Abandons what is unfinished and erases the credential. The provider is not told.
    """
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.database, mode="use") as store:
            entry = await find(store, which, provider_url)
            abandoned = await retire(store, entry, actor(), clock.now())
        click.echo(f"{entry.name} retired; executions abandoned: {abandoned}")

    asyncio.run(work())


def _keys(settings: Settings) -> Keys:
    return Keys(receiver=ensure_key(settings.receiver_key_path), worker=ensure_key(settings.worker_key_path))


def _together(one: str, first: object, other: str, second: object) -> None:
    if (first is None) != (second is None):
        missing, given = (one, other) if first is None else (other, one)
        raise click.UsageError(f"Missing option '{missing}': '{given}' needs it.")
