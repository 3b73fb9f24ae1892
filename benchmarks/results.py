"""What a run found, as the file that the tables are made of."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import Bar, Figure, Measure, Plan

FOLDER: Final = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one measure found."""

    name: str
    title: str
    began_at: str
    seconds: float
    rounds: int
    load_before: str
    load_after: str
    figures: tuple[Figure, ...]
    bars: tuple[Bar, ...]
    quick: bool = False
    """Whether counts were small, for development."""


@dataclass(frozen=True, slots=True)
class Results:
    """A run, or several whose measures were put together."""

    date: str
    command: str
    machine: dict[str, str]
    findings: tuple[Finding, ...]

    def with_finding(self, finding: Finding, order: Sequence[str]) -> "Results":
        """The same with one measure's finding added or replaced; `order` has the names of all measures."""
        others = [each for each in self.findings if each.name != finding.name and each.name in order]
        kept = sorted([*others, finding], key=lambda each: order.index(each.name))
        return replace(self, findings=tuple(kept))


def finding(
    measure: Measure, figures: Sequence[Figure], *, plan: Plan, began_at: str, seconds: float, loads: tuple[str, str]
) -> Finding:
    """Put together what a measure found."""
    return Finding(
        measure.name, measure.title, began_at, round(seconds, 1), plan.rounds, *loads, tuple(figures), measure.bars,
        plan.quick,
    )  # fmt: skip


def newest() -> Path | None:
    """The file of the last run."""
    return max(FOLDER.glob("*.json"), default=None)


def write(results: Results, folder: Path = FOLDER) -> Path:
    """Write a run's file, in place of one of the same day."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{results.date}.json"
    text = json.dumps(_rounded(dataclasses.asdict(results)), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def read(path: Path) -> Results:
    """A run's file."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return Results(**(found | {"findings": tuple(map(_finding, found["findings"]))}))


def _finding(found: dict[str, Any]) -> Finding:
    figures = tuple(
        Figure(**(each | {"sides": {side: tuple(values) for side, values in each["sides"].items()}}
                  | {"notes": tuple(each["notes"])}))
        for each in found["figures"]
    )  # fmt: skip
    bars = tuple(Bar(**(each | {"limits": tuple(each["limits"])})) for each in found["bars"])
    return Finding(**(found | {"figures": figures, "bars": bars}))


def _rounded(value: Any) -> Any:
    """Five digits are more than any figure here is good for."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value
