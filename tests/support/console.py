"""The `wakegate` command in tests: in this process for most, in one of its own where signals and pipes matter."""

import asyncio
import io
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from support.desk import Desk
from support.processes import clean_environment
from wakegate_console.cli import main
from wakegate_schema import logs
from wakegate_schema.store import Store, open_store

T = TypeVar("T")


@dataclass(frozen=True)
class Ran:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it wrote, as JSON."""
        return json.loads(self.out)


class Console:
    """Runs commands in a directory of their own, with a store there and no other settings."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self.database = f"sqlite:///{directory}/wakegate.db"
        self._capsys = capsys
        logs.configure(
            "json", io.StringIO()
        )  # services that run beside it in this process write no line into its output
        self.set = monkeypatch.setenv
        for name in [name for name in os.environ if name.startswith("WAKEGATE_")]:
            monkeypatch.delenv(name)
        monkeypatch.chdir(directory)
        self.set("WAKEGATE_DATABASE", self.database)

    def __call__(self, *arguments: str) -> Ran:
        self._capsys.readouterr()
        code = main(arguments)
        return Ran(code, *self._capsys.readouterr())

    def secret_file(self, name: str, text: str) -> Path:
        """Make a file that only its owner may read."""
        path = self.directory / name
        path.touch(mode=0o600)
        path.write_text(text)
        return path


def prepared(console: Console, work: Callable[[Desk], Awaitable[T]]) -> T:
    """Open a desk in the console's store and do something there."""

    async def act() -> T:
        async with await open_store(console.database, mode="service") as store:
            return await work(await Desk(store).open())

    return asyncio.run(act())


def looked_up(console: Console, look: Callable[[Store], Awaitable[T]]) -> T:
    """Read from the console's store."""

    async def act() -> T:
        async with await open_store(console.database, mode="read") as store:
            return await look(store)

    return asyncio.run(act())


def command(*arguments: str) -> list[str]:
    """The command line of a process that runs the command."""
    return [sys.executable, "-m", "wakegate_console", *arguments]


def environment(directory: Path, **settings: str) -> dict[str, str]:
    """This process's environment with no settings but a store in the directory and those given."""
    kept = clean_environment()
    return kept | {"WAKEGATE_DATABASE": f"sqlite:///{directory}/wakegate.db", **settings}


def run(
    directory: Path,
    *arguments: str,
    settings: dict[str, str] | None = None,
    stdin: str | None = None,
    timeout: float = 60,
) -> Ran:
    """Run a command in a process of its own."""
    done = subprocess.run(
        command(*arguments),
        cwd=directory,
        env=environment(directory, **(settings or {})),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
