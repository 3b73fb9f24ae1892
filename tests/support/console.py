"""The `wakegate` command in tests: in this process for most, in one of its own where signals and pipes matter."""

import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from wakegate_console.cli import main
from wakegate_schema import logs


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


def command(*arguments: str) -> list[str]:
    """The command line of a process that runs the command."""
    return [sys.executable, "-m", "wakegate_console", *arguments]


def environment(directory: Path, **settings: str) -> dict[str, str]:
    """This process's environment with no settings but a store in the directory and those given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WAKEGATE_")}
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
