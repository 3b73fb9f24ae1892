"""The command's help and its documentation say the same, and the help is quick."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from support.tables import each_row
from wakegate_console.cli import ENTRIES, wakegate

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its full name, groups that only group left out."""
    yield from _under("wakegate", wakegate)


def _under(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group) or (command.invoke_without_command and name != "wakegate"):
        yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            yield from _under(f"{name} {sub}", found)


def documented() -> dict[str, set[str]]:
    """The options on the page by command; the command's arguments belong to its name."""
    sections = re.split(r"^### `(.+)`$", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        name: set(re.findall(r"^\| `(--[a-z-]+)[^`]*` \|", text, flags=re.MULTILINE))
        for name, text in zip(sections[1::2], sections[2::2], strict=True)
    }


def written(name: str, command: click.Command) -> str:
    """A command's heading on the page."""
    arguments = [
        parameter.make_metavar(click.Context(command)) if parameter.metavar else str(parameter.name).upper()
        for parameter in command.params
        if isinstance(parameter, click.Argument)
    ]
    return " ".join([name, *arguments])


def options(command: click.Command) -> set[str]:
    """A command's long options."""
    return {
        option
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in [*parameter.opts, *parameter.secondary_opts]
    }


def test_every_command_is_documented_with_its_options() -> None:
    assert documented() == {written(name, command): options(command) for name, command in commands()}


def test_the_root_options_are_documented() -> None:
    head = DOCS.read_text(encoding="utf-8").split("## Trying it")[0]
    for option in options(wakegate) | {"--help"}:
        assert f"`{option}" in head


@each_row("name", sorted(ENTRIES))
def test_a_commands_line_in_the_help_is_its_own_summary(name: str) -> None:
    command = wakegate.get_command(click.Context(wakegate), name)
    assert command is not None
    assert ENTRIES[name].summary == command.get_short_help_str(100)


@each_row(("name", "command"), list(commands()), ids=lambda value: value if isinstance(value, str) else "")
def test_every_option_says_what_it_does(name: str, command: click.Command) -> None:
    assert command.help
    for parameter in command.params:
        assert not isinstance(parameter, click.Option) or parameter.help


def test_the_help_imports_no_service() -> None:
    program = (
        "import sys; from wakegate_console.cli import main; main(['--help']);"
        "heavy = {'aiohttp', 'pydantic', 'rich', 'cryptography', 'uvloop', 'structlog'} & set(sys.modules);"
        "sys.exit(' '.join(sorted(heavy)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
