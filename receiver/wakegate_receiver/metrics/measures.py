"""Measures: what this receiver counts as it happens, since it started."""

import time
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram

from wakegate_receiver.metrics.receipts import Receipts
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Arrival, Binding, Challenge, Receipt, Timing
from wakegate_schema.states import RESOLVED, State
from wakegate_schema.store import Store

_START_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
_SLACK_BUCKETS: Final = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 86_400.0)
_TOLD: Final = sorted(RESOLVED | {State.IN_DOUBT, State.PERMITTED})


class Measures:
    """The counters and histograms; one for each receiver."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Make them in a registry."""
        self._receipts = Receipts()
        registry.register(self._receipts)
        self._resolved = Counter(
            "wakegate_resolutions",
            "Changes of executions that harnesses are told of, by the state they came to.",
            ["state"],
            registry=registry,
        )
        self._start = Histogram(
            "wakegate_decision_to_start_seconds",
            "From decided_at to the start, of calls that were started; seen when the attempt ends.",
            buckets=_START_BUCKETS,
            registry=registry,
        )
        self._slack = Histogram(
            "wakegate_start_slack_seconds",
            "From the start to expires_at: how much time was left; seen when the attempt ends.",
            buckets=_SLACK_BUCKETS,
            registry=registry,
        )
        for state in _TOLD:  # at 0 from the start: `increase()` does not see the first of a series that begins at 1
            self._resolved.labels(state.value)

    def genuine(self, ahead_s: float) -> None:
        """Note by how many seconds this host's clock was ahead of a genuine webhook's timestamp."""
        self._receipts.ahead_s = ahead_s

    def committed(self, receipt: Receipt, seconds: float) -> None:
        """Count a notification that was recorded, and how long that took; a conflict is a refusal and not counted."""
        self._receipts.count(receipt.kind, seconds)

    def verified(self) -> None:
        """Count a challenge that was answered."""
        self._receipts.verified += 1

    def told(self, timing: Timing) -> None:
        """Count a resolution, and the times of its attempt if it is the first word about one."""
        self._resolved.labels(timing.to_state.value).inc()
        if not timing.ends_attempt or timing.started_at is None:
            return
        if timing.decided_at is not None:
            self._start.observe((timing.started_at - timing.decided_at) / SECOND)
        if timing.expires_at is not None:
            self._slack.observe((timing.expires_at - timing.started_at) / SECOND)


class MeasuredRecords:
    """The store's two verbs for webhooks, measured and told of."""

    def __init__(self, store: Store, measures: Measures) -> None:
        """Take the store and what counts."""
        self._store = store
        self._measures = measures
        self._log = structlog.get_logger().bind()  # what is not told costs nothing then

    async def record(self, arrival: Arrival) -> Receipt:
        """Record a verified notification, durably."""
        begun = time.monotonic()
        receipt = await self._store.record(arrival)
        self._measures.committed(receipt, time.monotonic() - begun)
        self._log.debug(
            "received", action="record", outcome=receipt.kind, reason=receipt.reason, event_id=arrival.event_id
        )
        return receipt

    async def bind(self, challenge: Challenge) -> Binding:
        """Bind a challenged instance, durably."""
        binding = await self._store.bind(challenge)
        if binding.refusal is None:
            self._measures.verified()
        return binding
