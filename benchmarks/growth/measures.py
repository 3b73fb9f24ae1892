"""What is held against DESIGN's bars on growth, in the order in which it runs."""

from typing import Final

from benchmarks.figures import Bar, Measure
from benchmarks.growth import calls, notifications

MEASURES: Final = (
    Measure(
        "growth",
        "Notifications that are kept",
        (
            Bar(
                "acknowledgements/s with 5 million retained notifications ÷ empty",
                notifications.RATE, notifications.MOST, notifications.NONE, (0.8, 0.9),
            ),
            Bar(
                "longest commit with 5 million retained notifications, retention at work",
                notifications.LONGEST, notifications.MOST, None, (50,), at_least=False, worst=True,
            ),
        ),
        notifications.measure,
    ),
    Measure(
        "waiting",
        "Calls that wait",
        (
            Bar(
                f"finding {calls.DUE} due among 1 million waiting calls ÷ among {calls.DUE}",
                calls.FINDING, calls.MOST, calls.NONE, (2.0,), at_least=False,
            ),
        ),
        calls.measure,
    ),
)  # fmt: skip
