"""The documentation's pages: their code blocks, and a shell that is given them as a reader would paste them."""

import re
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.processes import clean_environment

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
FRAGMENT = "# inside a coroutine"

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(r"# (\w+\.py)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    page: str
    language: str
    text: str

    @property
    def program(self) -> str | None:
        """The file name in a program's first line."""
        named = _PROGRAM.fullmatch(self.text.partition("\n")[0])
        return named[1] if named else None


def blocks(page: Path, *languages: str) -> list[Block]:
    """The page's blocks in these languages, in order."""
    found = [Block(page.name, *pair) for pair in _BLOCK.findall(page.read_text(encoding="utf-8"))]
    return [block for block in found if not languages or block.language in languages]


def programs(page: Path) -> dict[str, str]:
    """The page's programs by file name."""
    return {block.program: block.text for block in blocks(page, "python") if block.program}


class Shell:
    """A reader's shell in a folder of its own, with job control, into which commands are pasted."""

    def __init__(self, folder: Path, changes: Mapping[str, str]) -> None:
        """Take the folder, and what to put in place of texts of the documentation, such as its ports."""
        self.folder = folder
        self._changes = changes
        (folder / ".venv").symlink_to(sys.prefix)
        kept = clean_environment()
        with (folder / "log").open("wb") as log:
            self._bash = subprocess.Popen(
                ["bash", "--norc"], cwd=folder, env=kept, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                text=True, start_new_session=True,
            )  # fmt: skip
        self.paste("set -m")

    def write(self, name: str, text: str) -> None:
        """Write a program of the documentation into the folder."""
        (self.folder / name).write_text(self._changed(text), encoding="utf-8")

    def paste(self, text: str) -> str:
        """Run commands, the first that fails ends the test; return what they wrote to standard output."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        mark = f"ended-{uuid.uuid4()}"
        for command in _commands(self._changed(text)):
            self._bash.stdin.write(f'{command}\n[ $? = 0 ] || echo "failed-{mark}"\n')
        self._bash.stdin.write(f"echo {mark}\n")
        self._bash.stdin.flush()
        lines: list[str] = []
        for line in iter(self._bash.stdout.readline, f"{mark}\n"):
            assert line, f"the shell has ended:\n{self.log}"
            assert line != f"failed-{mark}\n", f"{text}\n{''.join(lines)}\n{self.log}"
            lines.append(line)
        return "".join(lines)

    def until(self, holds: Callable[[], bool], within: float = 30) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + within
        while not holds():
            assert time.monotonic() < deadline, f"waited in vain:\n{self.log}"
            time.sleep(0.05)

    @property
    def log(self) -> str:
        """What was written to standard error so far, by the services too."""
        return (self.folder / "log").read_text(encoding="utf-8")

    def close(self) -> None:
        """Stop what still runs in the background, and the shell."""
        try:
            self._bash.communicate("kill $(jobs -p) 2>/dev/null; wait\n", timeout=30)
        finally:
            self._bash.kill()
            self._bash.wait()

    def _changed(self, text: str) -> str:
        for old, new in self._changes.items():
            text = text.replace(old, new)
        return text


@contextmanager
def shell(folder: Path, changes: Mapping[str, str]) -> Iterator[Shell]:
    """A reader's shell, closed at the end."""
    opened = Shell(folder, changes)
    try:
        yield opened
    finally:
        opened.close()


def listens(port: int) -> bool:
    """Whether somebody accepts connections there."""
    with socket.socket() as each:
        return each.connect_ex(("127.0.0.1", port)) == 0


def _commands(text: str) -> list[str]:
    """The commands of a block, a continued line with the one before."""
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
