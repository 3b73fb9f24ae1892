"""The files that a run's results become: a page, and a plot for each figure."""

from pathlib import Path

from benchmarks import plots, results, tables
from benchmarks.results import Results


def files(run: Results) -> dict[Path, str]:
    """The text of every file, by its path."""
    figures = [each for finding in run.findings for each in finding.figures]
    names = {each.name: f"{run.date}-{_slug(each.name)}.svg" for each in figures}
    drawn = {results.FOLDER / names[each.name]: plots.svg(each) for each in figures}
    return drawn | {results.FOLDER / f"{run.date}.md": tables.page(run, names)}


def write(run: Results) -> None:
    """Write them, and README's block; plots of the same day whose figures are no more are removed."""
    made = files(run)
    for old in set(results.FOLDER.glob(f"{run.date}-*.svg")) - made.keys():
        old.unlink()
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    tables.write_readme(run)


def _slug(name: str) -> str:
    return "-".join("".join(each if each.isalnum() else " " for each in name.lower()).split())
