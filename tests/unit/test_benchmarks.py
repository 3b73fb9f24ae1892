"""The tables of the benchmarks are what their results file says, and leave out no bar."""

from pathlib import Path

import pytest

from benchmarks import ROOT, acknowledgements, pages, plots, results, tables
from benchmarks.figures import Bar, Failed, Figure, measures
from benchmarks.load import deliveries, files
from benchmarks.peers.effects import Effects
from benchmarks.rows import Rows
from support.deliveries import Sender
from wakegate_schema.signing import SigningSecret

RATES = Figure("answers", "1/s", {"ours": (90.0, 100.0, 130.0), "theirs": (100.0, 100.0, 100.0)}, "How many.")


@pytest.fixture(scope="module")
def run() -> results.Results:
    path = results.newest()
    assert path is not None
    return results.read(path)


def test_a_bar_is_held_against_the_median_of_each_rounds_ratio() -> None:
    bar = Bar("answers", "answers", "ours", "theirs", (0.8, 1.0, 1.3))
    assert bar.value(RATES) == 1.0
    assert bar.reached(RATES) == 2


def test_a_longest_time_is_that_of_the_worst_round() -> None:
    bar = Bar("longest", "answers", "ours", None, (120.0,), at_least=False, worst=True)
    assert bar.value(RATES) == 130.0
    assert bar.reached(RATES) == 0


def test_readme_is_what_the_last_results_say(run: results.Results) -> None:
    text = tables.README.read_text(encoding="utf-8")
    assert tables.put(tables.block(run), text) == text


def test_the_page_and_its_plots_are_what_the_last_results_say(run: results.Results) -> None:
    made = pages.files(run)
    assert made
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, path


def test_readme_names_every_bar_of_every_measure(run: results.Results) -> None:
    titles = [bar.title for measure in measures().values() for bar in measure.bars]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in tables.block(run).splitlines() if line[:2] == "| "]
    assert sorted(rows[1:]) == sorted(titles)
    assert len(set(titles)) == len(titles)


def test_results_are_read_as_they_were_written(run: results.Results, tmp_path: Path) -> None:
    assert results.read(results.write(run, tmp_path)) == run


def test_every_notification_of_a_load_is_another_one(tmp_path: Path) -> None:
    deliveries.write(tmp_path / "load", Sender(SigningSecret.generate().reveal(), "1"), 50)
    assert len(set(files.read(tmp_path / "load"))) == 50


@pytest.mark.parametrize("found", [10, 12])
def test_rows_that_are_not_as_many_as_the_answers_are_a_failure(found: int) -> None:
    side = acknowledgements.Side("ours", (), rows=Rows(lambda _: found))
    with pytest.raises(Failed, match=f"6 notifications were acknowledged, {found - 5} rows"):
        side.has_rows_for(6, held=5)


def test_a_call_that_had_two_effects_is_a_failure(tmp_path: Path) -> None:
    seen = Effects(tmp_path / "effects")
    seen.file.write_text("a 1\nb 2\nc")
    assert seen.new() == {"a": 1, "b": 2}
    seen.file.write_text("a 1\nb 2\nc 3\nd 4\nc 5\n")
    with pytest.raises(Failed, match="c"):
        seen.new()


def test_a_plot_has_every_side_and_nothing_to_fetch() -> None:
    drawn = plots.svg(RATES)
    assert ">ours</text>" in drawn
    assert ">theirs</text>" in drawn
    assert "href" not in drawn
    assert ROOT.name not in drawn
