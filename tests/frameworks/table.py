"""The table of observations: every story, with wakegate and with the SDK's own receiver (docs/sdk-observations.md).

`make sdk-table` runs it and writes the page's tables.
"""

import asyncio
import platform
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from frameworks.support.harness import HARNESSES
from frameworks.support.sdk_waker import SdkReceiver
from frameworks.support.stories import Story, of, tell
from frameworks.support.telling import Observed
from frameworks.support.wakegate_waker import Wakegate
from frameworks.support.waker import Waker
from support.rooms import room
from wakegate_schema import logs

PAGE: Final = Path(__file__).parents[2] / "docs" / "sdk-observations.md"
WAKERS: Final[tuple[type[Waker], ...]] = (Wakegate, SdkReceiver)
HEAD: Final = (f"| what happens | {' | '.join(kind.NAME for kind in WAKERS)} |", "|---|---|---|")

Seen = Mapping[type[Waker], Mapping[Story, Observed]]

_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


async def observe(framework: str, folder: Path) -> Seen:
    """Tell every story of a framework with either waker."""
    return {
        kind: await tell(framework, kind, folder / str(number), of(framework)) for number, kind in enumerate(WAKERS)
    }


def table(framework: str, seen: Seen) -> str:
    """Return one framework's part of the page."""
    rows = [f"| {story.happens} | {' | '.join(str(seen[kind][story]) for kind in WAKERS)} |" for story in of(framework)]
    return "\n".join([versions(framework), "", *HEAD, *rows])


def versions(framework: str) -> str:
    """Say what was observed."""
    packages = ("agentapprovalprotocol", *HARNESSES[framework].packages, "wakegate")
    return f"With {', '.join(f'{name} {version(name)}' for name in packages)}, Python {platform.python_version()}."


def marks(framework: str) -> tuple[str, str]:
    """What stands around a framework's part of the page."""
    begins = f"<!-- {framework} begins; `make sdk-table` writes it. -->"
    return begins, f"<!-- {framework} ends. -->"


def part(text: str, framework: str) -> str:
    """Return a framework's part of the page."""
    begin, end = marks(framework)
    return text.partition(begin)[2].partition(end)[0].strip()


def put(text: str, framework: str, made: str) -> str:
    """Return the page with this part in its place."""
    begin, end = marks(framework)
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{made}\n\n{end}{after}"


def rows(text: str) -> Iterator[tuple[str, ...]]:
    """Give the rows of a framework's part: what happens, and what came of it with each waker."""
    found: Iterable[tuple[str, ...]] = _ROW.findall(text)
    return (row for row in found if row[0] != "what happens")


def main(*frameworks: str) -> None:
    """Observe frameworks, or all, and write the page."""
    logs.configure("json")
    for framework in frameworks or HARNESSES:
        with tempfile.TemporaryDirectory(prefix="wg", dir=room() or "/tmp") as folder:
            made = table(framework, asyncio.run(observe(framework, Path(folder))))
        PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), framework, made), encoding="utf-8")
        print(f"{framework}\n{made}")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
