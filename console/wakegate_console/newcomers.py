"""`wakegate instance provision` and `import`: instances that come here."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import click

from wakegate_console.context import Context, pass_context
from wakegate_console.credentials import worker_key
from wakegate_console.enrolment import Import, enrol
from wakegate_console.parameters import IDENTIFIER, MOMENT, NAME, PROVIDER_URL, SECRET_FILE, WEBHOOK_URL
from wakegate_console.provisioning import Keys, Order, provision
from wakegate_console.waiting import Wait
from wakegate_schema import clock
from wakegate_schema.keys import existing_key, first_key
from wakegate_schema.sealing import BearerToken
from wakegate_schema.secret_files import SecretFileMissing, load_bearer_token, load_signing_secret
from wakegate_schema.settings import Settings
from wakegate_schema.store import Store, open_store
from wakegate_schema.urls import is_loopback

WAIT_S = 10.0
"""How long services that are only just starting are waited for, in seconds."""


@click.command("provision")
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
@click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(0, 600),
    default=WAIT_S,
    metavar="SECONDS",
    help="How long to wait for provider and receiver to listen; 10 unless given.",
)
@pass_context
def provision_command(
    context: Context, provider_url: str, provisioner_token_file: Path, url: str, name: str, seconds: float
) -> None:
    """Create an instance at a provider.

    The provider challenges the receiver meanwhile, which must be running. Interrupted or failed, the same
    command goes on where it was.
    """
    settings = context.settings()
    order = Order(provider_url, url, name, settings.database_path)
    wait = Wait(seconds, lambda line: click.echo(line, err=True))

    async def work() -> None:
        token = await _provisioner_token(provisioner_token_file, provider_url, wait)
        async with await open_store(settings.database, mode="service") as store:
            done = await provision(store, await keys_of(settings, store), order, token, clock.now(), wait)
        word = "provisioned as" if done.new else "was provisioned before, as"
        click.echo(f"{name} {word} {done.instance.instance_id}")

    asyncio.run(work())


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
        async with await open_store(settings.database, mode="service") as store:
            return await enrol(store, await keys_of(settings, store), wanted, clock.now())

    word = "imported as" if asyncio.run(work()) else "was imported before, as"
    click.echo(f"{wanted.name} {word} {_ids(wanted)}")


async def keys_of(settings: Settings, store: Store) -> Keys:
    """Return both keys, made where no setting names them and nothing was sealed yet."""
    secrets = any(registration.sealed_secret for registration in await store.registrations())
    receiver, setting = settings.receiver_key_path, "receiver_key_file"
    return Keys(
        receiver=existing_key(receiver, setting, named=settings.receiver_key_file is not None)
        or first_key(receiver, setting, sealed=secrets),
        worker=await worker_key(settings, store),
    )


async def _provisioner_token(path: Path, provider: str, wait: Wait) -> BearerToken:
    """Read the provisioner token. The small provider, on loopback, makes the file when it starts."""
    here = is_loopback(urlsplit(provider).hostname or "")
    while True:
        try:
            return load_bearer_token(path, "the provisioner token")
        except SecretFileMissing as error:
            if not here:
                raise
            if wait.over:
                raise SecretFileMissing(f"{error}; `wakegate provider` makes it when it starts") from error
        await wait.pause(f"{path}, which `wakegate provider` makes when it starts")


def _ids(wanted: Import) -> str:
    parts = {"instance": wanted.instance_id, "registration": wanted.registration_id}
    return " with ".join(f"{noun} {each}" for noun, each in parts.items() if each is not None)


def _together(one: str, first: object, other: str, second: object) -> None:
    if (first is None) != (second is None):
        missing, given = (one, other) if first is None else (other, one)
        raise click.UsageError(f"Missing option '{missing}': '{given}' needs it.")
