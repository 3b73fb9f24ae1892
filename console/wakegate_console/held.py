"""What is held because the store may have gone back in time, told to whoever has just begun a new epoch."""

import click

from wakegate_console.releasing import every_held
from wakegate_schema import timestamps
from wakegate_schema.records import Epoch
from wakegate_schema.store import Store
from wakegate_schema.store.verbs.epochs import CLOCKS_DIFFER


async def count_held(store: Store) -> int:
    """Return how many calls wait for a release."""
    return len([record async for record in every_held(store)])


def tell_of_held(count: int, epoch: Epoch) -> None:
    """Say how many calls wait, what to do about them, and which later ones will wait too."""
    if count:
        click.echo(
            f"{count} {'call' if count == 1 else 'calls'} had not started and may have run since: nothing runs again by"
            " itself. Look with `wakegate execution list`, then `wakegate execution release` or `abandon`"
        )
    until = timestamps.render(epoch.at + CLOCKS_DIFFER)
    click.echo(f"calls submitted before {until} wait for a release too: the provider may have known them before")
