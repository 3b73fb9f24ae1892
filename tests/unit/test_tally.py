"""What several receiver processes count: kept by each, read by one, and written on one page."""

import tempfile
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from wakegate_receiver.metrics.tally import FRESH_S, Tally
from wakegate_receiver.metrics.together import together

PAGE = b"""# HELP wakegate_acknowledgements_total Notifications.
# TYPE wakegate_acknowledgements_total counter
wakegate_acknowledgements_total{kind="saved"} %d.0
# HELP wakegate_connections Open connections.
# TYPE wakegate_connections gauge
wakegate_connections 2.0
# HELP wakegate_receiver_processes Processes.
# TYPE wakegate_receiver_processes gauge
wakegate_receiver_processes 1.0
# HELP wakegate_epoch The store's epoch.
# TYPE wakegate_epoch gauge
wakegate_epoch %d.0
"""


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def files() -> Iterator[list[int]]:
    with tempfile.TemporaryFile() as first, tempfile.TemporaryFile() as second, tempfile.TemporaryFile() as third:
        yield [first.fileno(), second.fileno(), third.fileno()]


def test_a_process_reads_the_last_page_of_each_of_the_others(files: list[int]) -> None:
    first, second, third = (Tally(files, number) for number in (1, 2, 3))
    assert first.others() == {}
    second.keep(b"a long page of the second")
    second.keep(b"short")
    first.keep(b"its own")
    assert first.others() == {2: b"short"}
    assert third.others() == {1: b"its own", 2: b"short"}


def test_the_page_of_a_process_that_is_gone_is_left_out(files: list[int]) -> None:
    clock = Clock()
    Tally(files, 2, clock).keep(b"a page")
    clock.now += FRESH_S - 0.1
    assert Tally(files, 1, clock).others() == {2: b"a page"}
    clock.now += 0.2
    assert Tally(files, 1, clock).others() == {}


def test_counts_are_told_apart_by_process_and_the_store_is_told_of_once() -> None:
    page = together({1: PAGE % (5, 7), 2: PAGE % (3, 0)}, 1)
    found = {
        (sample.name, sample.labels.get("process")): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }
    assert found == {
        ("wakegate_acknowledgements_total", "1"): 5,
        ("wakegate_acknowledgements_total", "2"): 3,
        ("wakegate_connections", "1"): 2,
        ("wakegate_connections", "2"): 2,
        ("wakegate_epoch", None): 7,
        ("wakegate_receiver_processes", None): 2,
    }
    assert page.count(b"# TYPE wakegate_acknowledgements_total counter") == 1
