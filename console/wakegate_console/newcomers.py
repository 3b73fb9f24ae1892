"""`wakegate instance provision` and `import`: instances that come here."""

import asyncio
from pathlib import Path

import click

from wakegate_console import credential_file
from wakegate_console.context import Context, pass_context
from wakegate_console.credentials import token_of
from wakegate_console.enrolment import Import, enrol
from wakegate_console.keys_in_use import Keys, both_keys
from wakegate_console.parameters import IDENTIFIER, MOMENT, NAME, PROVIDER_URL, SECRET_FILE, WEBHOOK_URL
from wakegate_console.provisioner_token import provisioner_token, token_file_option, wait_aloud, wait_option
from wakegate_console.provisioning import CannotProvision, Order, Provisioned, provision, provisioned_before
from wakegate_schema import clock
from wakegate_schema.secret_files import load_bearer_token, load_signing_secret
from wakegate_schema.store import Store, open_store


@click.command("provision")
@click.option("--provider-url", type=PROVIDER_URL, required=True, metavar="URL", help="The provider's base URL.")
@token_file_option
@click.option(
    "--url",
    type=WEBHOOK_URL,
    required=True,
    metavar="HTTPS_URL",
    help="The receiver's URL, as the provider reaches it: https://…/aap/events.",
)
@click.option("--name", type=NAME, required=True, metavar="NAME", help="What to call the instance.")
@click.option(
    "--save-credential",
    "saved_in",
    type=SECRET_FILE,
    metavar="FILE",
    help="Save the credential there too, for a harness that asks the provider by itself.",
)
@wait_option
@pass_context
def provision_command(
    context: Context,
    provider_url: str,
    provisioner_token_file: Path,
    url: str,
    name: str,
    saved_in: Path | None,
    seconds: float,
) -> None:
    """Create an instance at a provider.

    The provider challenges the receiver meanwhile, which must be running. Interrupted or failed, the same
    command goes on where it was.
    """
    settings = context.settings()
    order = Order(provider_url, url, name, settings.store.name)
    wait = wait_aloud(seconds)

    async def work() -> None:
        token = await provisioner_token(provisioner_token_file, provider_url, wait)
        async with (
            await open_store(settings.store, mode="service") as store,
            both_keys(settings, store) as keys,
        ):
            await _check_place(store, order, saved_in)
            done = await provision(store, keys, order, token, clock.now(), wait)
            word = "provisioned as" if done.new else "was provisioned before, as"
            click.echo(f"{name} {word} {done.instance.instance_id}")
            if saved_in is not None:
                _save(keys, done, saved_in)

    asyncio.run(work())


async def _check_place(store: Store, order: Order, saved_in: Path | None) -> None:
    if saved_in is not None:
        is_new = await provisioned_before(store, order) is None
        credential_file.check_place(saved_in, is_new=is_new)


def _save(keys: Keys, done: Provisioned, path: Path) -> None:
    token = token_of(keys.worker, done.instance)
    if token is None:
        raise CannotProvision(
            f"the credential of {done.instance.name} is erased, or sealed under another key, so it cannot be saved;"
            " `wakegate doctor` tells which (keys.worker)",
            reason="no_credential",
        )
    word = "its credential is saved in" if credential_file.save(path, token) else "its credential was there already:"
    click.echo(f"{word} {path}")


@click.command("import")
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

    async def work() -> bool:
        async with (
            await open_store(settings.store, mode="service") as store,
            both_keys(settings, store) as keys,
        ):
            return await enrol(store, keys, wanted, clock.now())

    word = "imported as" if asyncio.run(work()) else "was imported before, as"
    click.echo(f"{wanted.name} {word} {_ids(wanted)}")


def _ids(wanted: Import) -> str:
    parts = {"instance": wanted.instance_id, "registration": wanted.registration_id}
    return " with ".join(f"{noun} {each}" for noun, each in parts.items() if each is not None)


def _together(one: str, first: object, other: str, second: object) -> None:
    if (first is None) != (second is None):
        missing, given = (one, other) if first is None else (other, one)
        raise click.UsageError(f"Missing option '{missing}': '{given}' needs it.")
