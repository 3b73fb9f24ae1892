"""Gauges: what the store holds at the moment of a scrape, and what the receiver refuses and serves."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from wakegate_schema.clock import SECOND
from wakegate_schema.queue import QueueState
from wakegate_schema.records import Census, Instance, MissingTool
from wakegate_schema.states import RESOLVED, State

UNRESOLVED = tuple(state.value for state in State if state not in RESOLVED)
UNDELIVERED = ("owed", "undelivered")
PROCESSES = "wakegate_receiver_processes"
DUE = ("execution", "attempt", "cancel", "report", "adoption", "wake")


@dataclass(frozen=True, slots=True)
class StoreLook:
    """What one look at the store found."""

    at: int
    """The wall clock at the look, µs."""
    census: Census
    instances: tuple[Instance, ...] = field(repr=False)
    wal_bytes: int
    epoch: int
    clock_behind: float
    """Seconds by which this host's clock is behind the highest it has shown; 0 when it is not."""
    workers: Mapping[str, int] = field(default_factory=dict)
    """How many workers live, by pool; a pool whose workers fell silent lately has 0."""
    missing: tuple[MissingTool, ...] = ()
    """What no living worker has."""


class Gauges(Collector):
    """Yields gauges for the look that was handed in last, and the refusals counted so far."""

    def __init__(
        self,
        refused: Mapping[str, int],
        connections: Callable[[], int],
        version: str,
        queue: Callable[[], QueueState | None],
    ) -> None:
        """Take the counts of refusals by reason, the open connections, the program's version, and the queue's state."""
        self._refused = refused
        self._connections = connections
        self._version = version
        self._queue = queue
        self.look: StoreLook | None = None
        """What the store held; None while it is unavailable, and then only `wakegate_store_up` tells of it."""

    def describe(self) -> Iterator[Metric]:
        """Nothing in advance: registering must not look at the store."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        build = GaugeMetricFamily("wakegate_build_info", "Always 1; its label names the version.", labels=["version"])
        build.add_metric([self._version], 1)
        yield build
        yield GaugeMetricFamily(PROCESSES, "Receiver processes whose counts are on this page.", value=1)
        refusals = CounterMetricFamily(
            "wakegate_refusals", "Webhook requests that were refused, by reason (docs/answers.md).", labels=["reason"]
        )
        for reason, count in sorted(self._refused.items()):
            refusals.add_metric([reason], count)
        yield refusals
        yield GaugeMetricFamily(
            "wakegate_connections", "Open connections of the public listener.", value=self._connections()
        )
        yield GaugeMetricFamily(
            "wakegate_store_up",
            "1 when the store could be read for this page, else 0.",
            value=float(self.look is not None),
        )
        if (queue := self._queue()) is not None:
            yield from _of_queue(queue)
        if self.look is not None:
            yield from _of_store(self.look)


def _of_queue(queue: QueueState) -> Iterator[Metric]:
    hints = CounterMetricFamily("wakegate_hints", "Hints to pools of workers, by what came of them.", labels=["result"])
    hints.add_metric(["sent"], queue.sent)
    hints.add_metric(["merged"], queue.merged)
    yield hints
    failures = CounterMetricFamily(
        "wakegate_hint_failures",
        "How often the queue did not take a hint, by reason (docs/queue.md).",
        labels=["reason"],
    )
    for reason, count in sorted(queue.failures.items()):
        failures.add_metric([reason], count)
    yield failures
    yield GaugeMetricFamily(
        "wakegate_queue_up", "1 when the queue took the last hint, or none was sent yet.", value=float(queue.reachable)
    )


def _of_store(look: StoreLook) -> Iterator[Metric]:
    census = look.census
    yield _by("wakegate_executions", "Unresolved executions, by state.", "state", UNRESOLVED, census.executions)
    yield _by("wakegate_wakes", "Wakes that were not delivered, by state.", "state", UNDELIVERED, census.wakes)
    yield GaugeMetricFamily("wakegate_cancels_owed", "Requests that are still to be cancelled.", value=census.cancels)
    yield GaugeMetricFamily(
        "wakegate_reports_owed", "Outcomes of which a provider is still to be told.", value=census.reports
    )
    yield GaugeMetricFamily(
        "wakegate_adoptions_owed", "Adopted requests whose framework is to be resumed.", value=census.adoptions
    )
    yield GaugeMetricFamily(
        "wakegate_notifications_unhandled", "Notifications that nothing has come of yet.", value=census.unhandled
    )
    yield GaugeMetricFamily(
        "wakegate_in_doubt_oldest_seconds",
        "For how long the oldest call in doubt has been; 0 without one.",
        value=_since(look.at, census.in_doubt_since),
    )
    lags = {kind: _since(look.at, census.due.get(kind)) for kind in DUE}
    yield _by("wakegate_sweep_lag_seconds", "For how long the oldest due work of a kind waits.", "work", DUE, lags)
    yield GaugeMetricFamily("wakegate_wal_bytes", "Bytes in the store's write-ahead log.", value=look.wal_bytes)
    yield GaugeMetricFamily("wakegate_epoch", "The store's epoch.", value=look.epoch)
    yield GaugeMetricFamily(
        "wakegate_clock_behind_seconds",
        "By how much this host's clock is behind the highest it has shown; nothing starts while it is much.",
        value=look.clock_behind,
    )
    yield from _of_workers(look)
    yield from _of_instances(look.instances)


def _of_workers(look: StoreLook) -> Iterator[Metric]:
    living = GaugeMetricFamily("wakegate_workers", "Workers that live, by pool.", labels=["pool"])
    for pool, count in sorted(look.workers.items()):
        living.add_metric([pool], count)
    yield living
    calls: Counter[str] = Counter()
    for one in look.missing:
        calls[one.tool] += one.calls
    waiting = GaugeMetricFamily(
        "wakegate_calls_without_worker",
        "Undecided calls whose tool no living worker has at their version, by tool.",
        labels=["tool"],
    )
    for tool, count in sorted(calls.items()):
        waiting.add_metric([tool], count)
    yield waiting


def _of_instances(instances: tuple[Instance, ...]) -> Iterator[Metric]:
    states = GaugeMetricFamily(
        "wakegate_instance_active", "1 for an instance in use, 0 for a parked one.", labels=["instance"]
    )
    expiry = GaugeMetricFamily(
        "wakegate_credential_expiry_timestamp_seconds",
        "When an instance's credential ends, in seconds since the Unix epoch.",
        labels=["instance"],
    )
    for instance in instances:
        if instance.state == "retired":
            continue
        states.add_metric([instance.name], float(instance.state == "active"))
        if instance.credential_expires_at is not None:
            expiry.add_metric([instance.name], instance.credential_expires_at / SECOND)
    yield states
    yield expiry


def _by(name: str, meaning: str, label: str, words: tuple[str, ...], values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, meaning, labels=[label])
    for word in words:
        family.add_metric([word], values.get(word, 0))
    return family


def _since(now: int, at: int | None) -> float:
    return 0.0 if at is None else max(0.0, (now - at) / SECOND)
