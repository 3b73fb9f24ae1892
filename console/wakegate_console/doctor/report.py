"""The report: a table by area for people, one array of objects for programs."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import click

from wakegate_console.doctor.finding import Finding, counted
from wakegate_console.screen import put, screen
from wakegate_console.text import printable

COLOURS: Final = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "red"}
_INDENT: Final = 11


def view(finding: Finding) -> Mapping[str, Any]:
    """Return a finding as `--json` has it."""
    return {
        "area": finding.area,
        "check": finding.check,
        "verdict": finding.verdict,
        "what": finding.what,
        "do": finding.do or None,
    }


def write_table(findings: Sequence[Finding], *, offline: bool) -> None:
    """Write the findings to standard output, by area, and how many there are of each kind."""
    width = screen().width
    names = max((len(finding.check) for finding in findings), default=0)
    for area, found in groupby(findings, key=lambda finding: finding.area):
        put(click.style(area, bold=True) if width is not None else area)
        for finding in found:
            for number, line in enumerate(_lines(finding, names, width)):
                put(line, COLOURS[finding.verdict] if width is not None and not number else None)
    click.echo(f"\n{_summary(findings, offline=offline)}")


def _lines(finding: Finding, names: int, width: int | None) -> Iterator[str]:
    """Yield the lines of a finding: what was found, and below it what to do."""
    head = f"  {finding.verdict:<{_INDENT - 4}}  {finding.check:<{names}}  "
    margin = " " * len(head)
    for text, first in ((finding.what, head), (finding.do and f"→ {finding.do}", margin)):
        if text and width is None:
            yield f"{first}{printable(text)}"
        elif text:
            room = max(width or 0, len(head) + 24)
            yield from textwrap.wrap(
                printable(text), room, initial_indent=first, subsequent_indent=margin, break_on_hyphens=False
            )


def _summary(findings: Sequence[Finding], *, offline: bool) -> str:
    counts = Counter(finding.verdict for finding in findings)
    told = ", ".join(counted(counts[verdict], verdict) for verdict in ("problem", "warning", "note") if counts[verdict])
    left = "; nothing was sent over the network (--offline)" if offline else ""
    return f"{told or 'nothing to remark'}{left}"
