"""`wakegate db reseal`: a new sealing key, while the services go on working."""

import asyncio

import click

from wakegate_console.context import Context, pass_context
from wakegate_console.resealing import Resealed, are_copied, reseal, targets
from wakegate_schema.service_keys import ServiceKey
from wakegate_schema.store import open_store


@click.command("reseal")
@click.option(
    "--key",
    "which",
    type=click.Choice(["receiver", "worker", "both"]),
    default="both",
    metavar="WHICH",
    help="receiver, worker or both; both unless given.",
)
@click.option("--keep-old", is_flag=True, help="Leave the old keys in the key file; they open, and seal nothing.")
@click.pass_context
@pass_context
def reseal_command(context: Context, ctx: click.Context, which: str, keep_old: bool) -> None:
    """Seal everything in the store under a new key.

    The services go on working. Where systemd hands them copies of root's key files they need one restart: the command
    says when, and is run again then. Interrupted, the same command goes on where it was.
    The old keys move to a file beside, FILE.old: only backups made before need them.
    """
    settings = context.settings()

    async def work() -> list[Resealed]:
        done = []
        async with await open_store(settings.store, mode="use") as store:
            for name, key, values in targets(settings, which):
                copied = key.path.exists() and are_copied(key, settings.store.file)
                resealed = await reseal(store, key, values, keep_old=keep_old, copied=copied)
                click.echo(f"{name}: {_told(resealed, key)}")
                done.append(resealed)
        return done

    closed = [name for resealed in asyncio.run(work()) for name in resealed.closed]
    for name in closed:
        click.echo(f"wakegate: {name} opens under no key and was left as it is", err=True)
    if closed:
        ctx.exit(1)


def _told(resealed: Resealed, file: ServiceKey) -> str:
    if resealed.paused:
        return (
            f"a new key is in {file.path}, and nothing is sealed under it yet: restart the services, which have copies"
            " of that file, then run this again"
        )
    key = "the new key made before" if resealed.resumed else "a new key"
    text = f"sealed anew under {key}: {resealed.values}"
    if resealed.aside:
        return f"{text}; old keys moved to {resealed.file}: {resealed.aside} (backups made before need them)"
    return f"{text}; old keys kept in the file: {resealed.kept}" if resealed.kept else text
