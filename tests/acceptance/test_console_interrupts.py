"""Ctrl-C while a command is still being imported ends it without a word."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.console import environment

PROGRAM = """
import os, signal, sys
moment = sys.argv.pop(1)

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from wakegate_console.entry import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("moment", "arguments"),
    [
        ("click", ["execution", "list"]),
        ("pydantic_settings", ["receiver"]),
        ("aiohttp", ["receiver"]),
        ("aiohttp", ["worker"]),
        ("wakegate_console.supervision", ["up"]),
    ],
)
def test_an_interrupted_import_says_nothing(tmp_path: Path, moment: str, arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, moment, *arguments],
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
