"""`wakegate harness`: who may use the control API, and with which instances."""

import asyncio
import pwd
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from wakegate_console import listing
from wakegate_console.context import Context, pass_context
from wakegate_console.harness_token import digest_in, make_token
from wakegate_console.parameters import CALLED, HARNESS, SECRET_FILE, USER
from wakegate_console.roster import entries
from wakegate_console.settings_file import SettingsFile, changing
from wakegate_console.table import Column, Row
from wakegate_schema import ids
from wakegate_schema.addresses import Address
from wakegate_schema.errors import WakegateError
from wakegate_schema.harness_tables import HarnessTable
from wakegate_schema.settings import Settings
from wakegate_schema.store import NotFound, StoreMissing, open_store

COLUMNS = (
    Column("harness", "HARNESS", least=12),
    Column("uid", "UID"),
    Column("user", "USER", spare=True),
    Column("token", "TOKEN"),
    Column("instances_text", "INSTANCES", least=16),
)


class HarnessDiffers(WakegateError):
    """There is another harness of that name."""

    reason = "harness_differs"


@click.group()
def harness() -> None:
    """Say which harness may use which instances.

    Written to the settings file; a running receiver takes it up by itself.
    """


@harness.command("add")
@click.argument("name", type=HARNESS)
@click.option(
    "--instance", "instances", type=CALLED, multiple=True, required=True, metavar="INSTANCE", help="Which; repeat it."
)
@click.option("--uid", type=USER, metavar="USER", help="The user that its processes run as, by name or number.")
@click.option(
    "--token-file", type=SECRET_FILE, metavar="FILE", help="Holds its token, and is made with a new one if not there."
)
@click.option("--replace", is_flag=True, help="Change the harness that has this name already.")
@pass_context
def add_command(
    context: Context, name: str, instances: Sequence[str], uid: int | None, token_file: Path | None, replace: bool
) -> None:
    """Let a harness use instances.

    It proves itself by the user it runs as, by a token, or by either. Only the SHA-256 of the token is written down.
    """
    if uid is None and token_file is None:
        raise click.UsageError("How is it to prove who it is? Give --uid, --token-file or both.")
    with changing(context) as file:
        named = _add(file, name, uid, token_file, instances, replace=replace)
    for line in _doubts(file.settings, token_file, named):
        click.echo(f"wakegate: {line}", err=True)


@harness.command("list")
@listing.listing_options
@pass_context
def list_command(context: Context, as_json: bool, limit: int | None) -> None:
    """List the harnesses, as the settings file has them."""
    tables = list(context.settings().harness.items())[:limit]
    rows = [_row(name, table, as_json=as_json) for name, table in tables]
    asyncio.run(listing.write(listing.several(rows), COLUMNS, as_json=as_json, nothing="There are no harnesses."))


@harness.command("remove")
@click.argument("name", type=CALLED)
@pass_context
def remove_command(context: Context, name: str) -> None:
    """Refuse a harness from now on. Its calls go on; its token file is left alone."""
    with changing(context) as file:
        if name not in file.settings.harness:
            raise NotFound(f"there is no harness {name}; see `wakegate harness list`")
        file.drop("harness", name)
    click.echo(f"{name} is removed from {file.path}; a running receiver refuses it from now on")


def _add(
    file: SettingsFile, name: str, uid: int | None, token_file: Path | None, instances: Sequence[str], *, replace: bool
) -> list[str]:
    """Write the harness's table unless it is there already, and say so; return its instances."""
    known = file.settings.harness.get(name)
    digest = None if token_file is None else digest_in(token_file)
    values = _values(uid, digest, instances)
    if known is not None and (token_file is None or digest) and values == _of(known):
        click.echo(f"{name} is there already, just so: {_described(values, token_file)}")
        return list(known.instances)
    if known is not None and not replace:
        raise HarnessDiffers(f"{name} is there with other values ({_described(_of(known))}); see --replace")
    if token_file is not None and digest is None:
        values = _values(uid, make_token(token_file), instances)
        click.echo(f"made {token_file}: give it to the harness, whose user alone may read it (chown; mode 0600)")
    file.put("harness", name, values)
    click.echo(f"{name}: {_described(values, token_file)}")
    click.echo(f"written to {file.path}; a running receiver takes it up by itself")
    return list(values["instances"])


def _values(uid: int | None, digest: str | None, instances: Sequence[str]) -> dict[str, Any]:
    """Return what its table is to hold."""
    named = list(dict.fromkeys(map(_canonical, instances)))
    return {
        key: value for key, value in (("uid", uid), ("token_sha256", digest), ("instances", named)) if value is not None
    }


def _of(table: HarnessTable) -> dict[str, Any]:
    return _values(table.uid, table.token_sha256, table.instances)


def _canonical(instance: str) -> str:
    try:
        return ids.parse(instance)
    except ids.MalformedId:
        return instance


def _described(values: Mapping[str, Any], token_file: Path | None = None) -> str:
    proofs = [f"uid {values['uid']}"] if "uid" in values else []
    if "token_sha256" in values:
        proofs.append("a token" if token_file is None else f"the token in {token_file}")
    return f"{' or '.join(proofs)}; may use {', '.join(values['instances'])}"


def _row(name: str, table: HarnessTable, *, as_json: bool) -> Row:
    row = {
        "harness": name,
        "uid": table.uid,
        "user": None if table.uid is None else _user_name(table.uid),
        "token_sha256": table.token_sha256,
        "instances": list(table.instances),
    }
    if as_json:
        return row
    return row | {"token": "yes" if table.token_sha256 else None, "instances_text": ", ".join(table.instances)}


def _user_name(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return None


def _doubts(settings: Settings, token_file: Path | None, instances: Sequence[str]) -> list[str]:
    """Return what is perhaps not as it was meant."""
    found = []
    if token_file is None and isinstance(settings.control_address, Address):
        found.append(f"the control socket is {settings.control_address}, where no user is seen; give --token-file too")
    try:
        known = asyncio.run(_names(settings))
    except WakegateError as error:
        return [*found, f"whether the store has these instances is not known: {error}"]
    unknown = [name for name in instances if name not in known]
    if unknown:
        there = f"it has {', '.join(dict.fromkeys(known.values()))}" if known else "it has none yet"
        found.append(f"the store has no instance {', '.join(unknown)}; {there}")
    return found


async def _names(settings: Settings) -> dict[str, str]:
    """Return the names of the instances in use by what they are called: by their names and by their ids."""
    try:
        async with await open_store(settings.store, mode="read") as store:
            used = [entry for entry in await entries(store) if entry.view()["state"] != "retired"]
    except StoreMissing:
        return {}
    return {called: entry.name for entry in used for called in (entry.name, entry.instance_id) if called}
