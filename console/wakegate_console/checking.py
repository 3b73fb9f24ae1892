"""`wakegate db check`: whether the store is whole."""

import asyncio
from dataclasses import asdict

import click

from wakegate_console import sheet, views
from wakegate_console.context import Context, pass_context
from wakegate_console.place import place
from wakegate_console.table import Column
from wakegate_schema.store import open_store
from wakegate_schema.store.examination import MOST, Examination, examine

COUNTED = ("migration", "executions", "notifications", "in_doubt", "held")
FAULT_COLUMNS = (Column("kind", "KIND"), Column("subject", "SUBJECT"), Column("detail", "WHAT IS WRONG", least=20))


@click.command("check")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_context
def check_command(context: Context, as_json: bool) -> None:
    """Read the whole store and say whether it is sound.

    SQLite's own check and the foreign keys, the schema with its guards, and what can be derived twice: every history
    ends in its execution's state, every change is one that exists, nothing has started twice. The services may run.
    Exit code 1 if anything is wrong.
    """
    settings = context.settings()
    database = place(settings)

    async def work() -> Examination:
        from rich.console import Console

        async with await open_store(settings.store, mode="read"):
            with Console(stderr=True).status("checking") as status:
                return await asyncio.to_thread(
                    examine, settings.store, step=lambda what: status.update(f"checking {what}")
                )

    found = asyncio.run(work())
    faults = [asdict(fault) for fault in found.faults]
    view = {"database": database, "sound": not faults, **_view(found)}
    if as_json:
        sheet.write_object({**view, "faults": faults})
    else:
        sheet.write_fields(view, ("database", "sound"), "red" if faults else "green")
        sheet.write_section("faults", faults, FAULT_COLUMNS)
    if faults:
        raise click.ClickException(
            f"{database} is not sound; stop the services, keep the {_kind(settings.store.is_postgresql)}, and restore a"
            " backup" + (f" (of each kind, at most {MOST} faults are told)" if len(faults) >= MOST else "")
        )


def _kind(postgresql: bool) -> str:
    return "database" if postgresql else "file"


def _view(found: Examination) -> dict[str, object]:
    content = found.content
    return {
        "epoch": None if content is None else content.epoch.number,
        "epoch_began_at": None if content is None else views.moment(content.epoch.at),
        "epoch_reason": None if content is None else content.epoch.reason,
        "backup_made_at": None if content is None else views.moment(content.backup_made_at),
        "moved_to": None if content is None else content.moved_to,
        "bytes": found.size,
        "wal_bytes": found.wal_size,
        **{name: None if content is None else getattr(content, name) for name in COUNTED},
    }
