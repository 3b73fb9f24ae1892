"""docs/metrics.md names every metric of the page with its labels, and no other."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from wakegate_receiver.metrics.gauges import Gauges, StoreLook
from wakegate_receiver.metrics.measures import Measures
from wakegate_schema.queue import QueueState
from wakegate_schema.records import Census, Instance, MissingTool, Timing
from wakegate_schema.states import State

TEXT = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `(wakegate_\w+)` \| ([^|]*) \|", TEXT, flags=re.MULTILINE))
INSTANCE = Instance("https://p.example", "i", "desk", "active", None, "webhook", b"sealed", 7, 1)
MISSING = (MissingTool("ship", "1", 3),)
LOOK = StoreLook(10, Census({}, {}, 0, 0, 0, 0, None, {}), (INSTANCE,), 0, 1, 0.0, {"default": 2}, MISSING)


def families() -> dict[str, tuple[str, set[str]]]:
    """Every metric's name as it is written on the page → its kind, and its labels."""
    registry = CollectorRegistry()
    measures = Measures(registry)
    measures.told(Timing(1, None, State.DENIED, None, None, None))
    gauges = Gauges({"wrong_signature": 1}, lambda: 0, "1", lambda: QueueState(1, 1, {"redis_full": 1}, False))
    gauges.look = LOOK
    registry.register(gauges)
    return {
        f"{family.name}_total" if family.type == "counter" else family.name: (
            family.type,
            {label for sample in family.samples for label in sample.labels} - {"le"},
        )
        for family in registry.collect()
    }


def test_the_page_names_every_metric_and_no_other() -> None:
    assert ROWS.keys() == families().keys()


def test_the_kind_or_the_label_is_documented() -> None:
    for name, (kind, labels) in families().items():
        shown = ROWS[name].partition(":")[0].strip()
        if kind == "histogram":
            assert shown == "histogram", name
        else:
            assert shown == "".join(f"`{label}`" for label in labels), name
