"""Stop signals: two at once are one wish."""

from support.tables import each_row
from wakegate_schema.signals import spaced


@each_row(
    ("at", "acts"),
    [([0.0], 1), ([0.0, 0.001], 1), ([0.0, 0.49], 1), ([0.0, 0.5], 2), ([0.0, 0.001, 0.6], 2), ([0.0, 0.6, 0.61], 3)],
)
def test_a_signal_right_after_the_first_says_nothing_new(at: list[float], acts: int) -> None:
    times = iter(at)
    acted: list[None] = []
    handle = spaced(lambda: acted.append(None), lambda: next(times))
    for _ in at:
        handle()
    assert len(acted) == acts
