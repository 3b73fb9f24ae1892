"""`wakegate init`: a folder to develop in, or with --system a deployment; never over what is there."""

import os
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from wakegate_console.installation.steps import Report, Step

FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("folder", type=FOLDER, required=False, metavar="[DIR]")
@click.option("--system", is_flag=True, help="Install users, directories, secrets and units on this machine; as root.")
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="With --system: into the file system that lies in DIR, without secrets.",
)
@click.option("--dry-run", is_flag=True, help="Make nothing; say what would be made.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array of objects.")
@click.pass_context
def init(
    ctx: click.Context, folder: Path | None, system: bool, root: Path | None, dry_run: bool, as_json: bool
) -> None:
    """Make a folder to develop in, or with --system a deployment.

    What is there is never changed: it says how that differs, and what to do. Interrupted, the same command does the
    rest.
    """
    if folder is not None and system:
        raise click.UsageError("--system installs on this machine and takes no folder (--root is for another root)")
    if root is not None and not system:
        raise click.UsageError("--root goes with --system")
    steps = _deployment(root) if system else _development(folder)
    reports: list[Report] = []
    try:
        _carry_out(steps, reports, dry_run=dry_run)
    finally:  # what was done before a step failed counts too
        _write(reports, as_json=as_json)
    wrong = any(report.state == "differs" for report in reports)
    if not as_json:
        click.echo(_next(folder, system=system, root=root, dry_run=dry_run, wrong=wrong))
    if wrong:
        ctx.exit(1)


def _development(folder: Path | None) -> "Iterator[Step]":
    from wakegate_console.installation import development

    return development.steps((folder or Path()).absolute())


def _deployment(root: Path | None) -> "Iterator[Step]":
    from wakegate_console.installation import deployment
    from wakegate_console.installation.accounts import HERE
    from wakegate_console.installation.steps import CannotInit

    if os.geteuid() != 0:
        raise CannotInit(
            "init --system makes users, and files that belong to them, which only root can: run it by sudo, with the"
            " whole path of this program"
        )
    return deployment.steps(HERE if root is None else root.absolute())


def _carry_out(steps: "Iterator[Step]", reports: "list[Report]", *, dry_run: bool) -> None:
    from wakegate_console.installation.steps import carry_out

    reports.extend(carry_out(steps, dry=dry_run))


def _write(reports: "list[Report]", *, as_json: bool) -> None:
    import json

    from wakegate_console.screen import put, screen
    from wakegate_console.table import Column, Layout

    rows = [asdict(report) for report in reports]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    columns = [Column("state", "STATE"), Column("kind", "WHAT"), Column("name", "NAME", least=40)]
    layout = Layout(rows, [*columns, Column("detail", "", least=20)], screen())
    click.echo(layout.head())
    for row in rows:
        put(layout.line(row), "yellow" if row["state"] == "differs" else None)
        if row["state"] == "differs" and screen().width is not None:
            put(f"  {row['detail']}", "yellow")


def _next(folder: Path | None, *, system: bool, root: Path | None, dry_run: bool, wrong: bool) -> str:
    """Return what to do next."""
    if dry_run:
        return "\nnothing was made"
    if wrong:
        return "\nwhat differs was left as it is: put it right as it says, and run the same command again"
    if not system:
        return _next_in_folder(folder)
    return _next_in_image(root) if root is not None else _next_on_machine()


def _next_in_folder(folder: Path | None) -> str:
    from wakegate_console.installation import program

    command = shlex.join(program.command())
    enter = "" if folder is None else f"  cd {shlex.quote(str(folder))}\n"
    return (
        f"\nnext:\n{enter}"
        f"  {command} provider      # a provider to try with, in one terminal\n"
        f"  {command} up            # receiver and worker, in another\n"
        f"  {command} instance provision --provider-url http://127.0.0.1:8081 \\\n"
        "      --provisioner-token-file provisioner.token --url http://127.0.0.1:8080/aap/events --name try\n"
        "  then a harness saves calls (docs/harness.md, docs/control.md), and you decide:\n"
        f"  {command} provider requests\n"
        f"  {command} provider decide REQUEST approve"
    )


def _next_in_image(root: Path) -> str:
    return (
        f"\n{root} is prepared; on each machine made of it run `wakegate init --system` again, which makes the secrets"
    )


def _next_on_machine() -> str:
    from wakegate_console import layout
    from wakegate_console.installation import program

    command = " ".join(program.command())
    if not Path("/run/systemd/system").is_dir():
        services = (
            "  systemd does not run here; start each service as its user, with its own secrets only\n"
            '  (docs/deployment.md, "Without systemd")\n'
        )
    else:
        services = (
            "  systemctl daemon-reload\n"
            "  systemctl enable --now wakegate-receiver.socket wakegate-receiver.service wakegate-worker@1.service\n"
        )
    return (
        f"\nnext:\n  $EDITOR {layout.SETTINGS}\n{services}"
        f"  export WAKEGATE_CONFIG={layout.SETTINGS}      # or --config, for every command that root runs\n"
        f"  {command} instance provision …\n"
        f"  usermod --append --groups {layout.HARNESS_GROUP} USER      # each user that a harness runs as\n"
        f"  {command} harness add NAME --uid USER --instance INSTANCE\n"
        f"  {command} doctor"
    )
