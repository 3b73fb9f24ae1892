"""Together: the metrics of several receiver processes as one page."""

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from wakegate_receiver.metrics.gauges import PROCESSES

LABEL: Final = "process"
OF_A_PROCESS: Final = (
    "process_",
    "wakegate_acknowledgements",
    "wakegate_verifications",
    "wakegate_commit_seconds",
    "wakegate_webhook_skew_seconds",
    "wakegate_refusals",
    "wakegate_connections",
    "wakegate_hints",
    "wakegate_hint_failures",
    "wakegate_queue_up",
)
"""How the names of what each process counts for itself begin. Everything else is the store's, and told once."""


def together(pages: Mapping[int, bytes], leading: int) -> bytes:
    """Return one page: what a process counts with a label `process`, what the store holds as the leading one says it.

    Args:
        pages: in Prometheus' text format, by process number.
        leading: the number of the process that looks at the store.
    """
    return generate_latest(_Families(pages, leading))


class _Families(Collector):
    def __init__(self, pages: Mapping[int, bytes], leading: int) -> None:
        self._pages = {
            number: {family.name: family for family in text_string_to_metric_families(page.decode())}
            for number, page in sorted(pages.items())
        }
        self._leading = leading

    def collect(self) -> Iterator[Metric]:
        """Yield every family once, whole."""
        for name, family in self._pages[self._leading].items():
            if name == PROCESSES:
                yield GaugeMetricFamily(name, family.documentation, value=len(self._pages))
            else:
                yield self._of_all(family) if name.startswith(OF_A_PROCESS) else family

    def _of_all(self, family: Metric) -> Metric:
        made = Metric(family.name, family.documentation, family.type)
        for number, families in self._pages.items():
            own = families.get(family.name)
            made.samples += [_labelled(sample, number) for sample in own.samples] if own else []
        return made


def _labelled(sample: Sample, number: int) -> Sample:
    return sample._replace(labels={**sample.labels, LABEL: str(number)})
