"""Receipts: what is counted of every webhook, as plain numbers that become metrics when somebody asks."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BOUNDS: Final = (*map(floatToGoString, _BUCKETS), "+Inf")


class Receipts(Collector):
    """Counts since the receiver's start; one event loop counts."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.verified = 0
        """Challenges that were answered."""
        self.ahead_s = 0.0
        """By how much this host's clock was ahead of the latest genuine webhook's timestamp."""
        self._kinds = {"saved": 0, "duplicate": 0, "discarded": 0}
        self._commits = [0] * len(_BOUNDS)
        self._seconds = 0.0

    def count(self, kind: str, seconds: float) -> None:
        """Count a recorded notification and the time that it took; of other kinds nothing."""
        if kind in self._kinds:
            self._kinds[kind] += 1
            self._commits[bisect_left(_BUCKETS, seconds)] += 1
            self._seconds += seconds

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        acknowledged = CounterMetricFamily(
            "wakegate_acknowledgements",
            "Notifications acknowledged with a 2xx, by what they were: saved, duplicate, discarded.",
            labels=["kind"],
        )
        for kind, count in self._kinds.items():
            acknowledged.add_metric([kind], count)
        yield acknowledged
        yield CounterMetricFamily(
            "wakegate_verifications", "Verification challenges that were answered with a 200.", value=self.verified
        )
        yield HistogramMetricFamily(
            "wakegate_commit_seconds",
            "From a notification's proof to its commit on disk.",
            buckets=list(zip(_BOUNDS, map(float, accumulate(self._commits)), strict=True)),
            sum_value=self._seconds,
        )
        yield GaugeMetricFamily(
            "wakegate_webhook_skew_seconds",
            "This host's clock less the timestamp of the latest genuine webhook: its way, and how far clocks differ.",
            value=self.ahead_s,
        )
