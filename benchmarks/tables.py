"""Results as Markdown: the page of a run, and the block in README."""

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks import ROOT
from benchmarks.figures import Bar, Figure, measures
from benchmarks.results import Finding, Results

README: Final = ROOT / "README.md"
BEGIN: Final = "<!-- make bench: begin -->"
END: Final = "<!-- make bench: end -->"


def number(value: float) -> str:
    """A figure with three digits, and without an exponent."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def page(results: Results, plots: dict[str, str]) -> str:
    """The page of a run; `plots` has a file's name for each figure."""
    lines = [f"# Measured on {results.date}", "", f"`{results.command}`", "", *_machine(results), ""]
    lines += ["What is measured, and how to read it: [docs/performance.md](../../docs/performance.md).", ""]
    lines += ["## Bars", "", *_bars(results)]
    for each in results.findings:
        lines += ["", f"## {each.title}", "", *_finding(each, plots)]
    return "\n".join(lines) + "\n"


def block(results: Results) -> str:
    """What README says of a run, between its markers."""
    page = f"benchmarks/results/{results.date}.md"
    lines = [
        BEGIN,
        f"Measured on {results.date} by `make bench`: what is compared ran side by side, in turns, every commit of ours"
        f" synced to disk. On {results.machine['processors']}, {results.machine['disk']}, Python"
        f" {results.machine['Python']}. Medians of the rounds, and the least and the most of them;"
        f" [every figure, with plots]({page}).",
        "",
        *_bars(results),
        *_unmeasured(results),
        *_small(results),
        END,
    ]
    return "\n".join(lines)


def put(text: str, into: str) -> str:
    """Replace the block in README's text.

    Raises:
        ValueError: the markers are not there, once each and in order.
    """
    before, begin, rest = into.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in after or END in after:
        raise ValueError(f"README.md needs {BEGIN} and {END}, once each")
    return before + text + after


def bar_rows(results: Results) -> Sequence[tuple[Bar, Figure]]:
    """Every bar with the figure that it is about."""
    return [
        (bar, next(figure for figure in finding.figures if figure.name == bar.figure))
        for finding in results.findings
        for bar in finding.bars
    ]


def _bars(results: Results) -> Iterator[str]:
    yield "| figure | measured | least to most | bar | reached |"
    yield "|---|---|---|---|---|"
    for bar, figure in bar_rows(results):
        values, unit = bar.values(figure), "" if bar.base else f" {figure.unit}"
        measured = f"{number(bar.value(figure))}{unit} | {number(min(values))} to {number(max(values))}"
        yield f"| {bar.title} | {measured} | {_limits(bar)}{unit if bar.limits else ''} | {_reached(bar, figure)} |"


def _small(results: Results) -> Iterator[str]:
    names = [each.name for each in results.findings if each.quick]
    if names:
        yield from ("", f"Measured with small counts only (`--quick`): {', '.join(names)}.")


def _unmeasured(results: Results) -> Iterator[str]:
    done = {each.name for each in results.findings}
    for measure in measures().values():
        if measure.name not in done:
            yield from (f"| {bar.title} | not in this run | | {_limits(bar)} | |" for bar in measure.bars)


def _limits(bar: Bar) -> str:
    if not bar.limits:
        return "reported beside"
    return f"{'≥' if bar.at_least else '≤'} {', then '.join(map(number, bar.limits))}"


def _reached(bar: Bar, figure: Figure) -> str:
    if not bar.limits:
        return ""
    reached = bar.reached(figure)
    if not reached:
        return "**no**"
    if len(bar.limits) == 1:
        return "yes"
    return f"{number(bar.limits[reached - 1])}" if reached < len(bar.limits) else "all"


def _finding(found: Finding, plots: dict[str, str]) -> Iterator[str]:
    yield (
        f"`python -m benchmarks --only {found.name}`{' with small counts (`--quick`)' if found.quick else ''},"
        f" {found.rounds} rounds, begun {found.began_at},"
        f" {found.seconds:.0f} s; load averages {found.load_before} before, {found.load_after} after."
    )
    for figure in found.figures:
        yield from ("", f"### {figure.name[0].upper()}{figure.name[1:]}", "", figure.meaning, "")
        yield f"| side | {figure.unit}, median | least to most | rounds |"
        yield "|---|---|---|---|"
        for side, values in figure.sides.items():
            spread = f"{number(min(values))} to {number(max(values))}"
            yield f"| {side} | {number(statistics.median(values))} | {spread} | {len(values)} |"
        yield from ("", f"![{figure.name}]({plots[figure.name]})")
        if figure.notes:
            yield ""
            yield from (f"- {each[0].upper()}{each[1:]}." for each in figure.notes)


def _machine(results: Results) -> Iterator[str]:
    yield "| machine | |"
    yield "|---|---|"
    yield from (f"| {name} | {value} |" for name, value in results.machine.items())


def write_readme(results: Results, readme: Path = README) -> None:
    """Replace the block in README."""
    readme.write_text(put(block(results), readme.read_text(encoding="utf-8")), encoding="utf-8")
