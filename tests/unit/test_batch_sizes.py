"""Batches go to the database in few sizes, and nothing of them is lost."""

import pytest

from wakegate_schema.store.batch_sizes import SIZES, padded, parts


@pytest.mark.parametrize("count", [0, 1, 5, 57, 63, 64, 65, 255, 256, 257, 1000])
def test_parts_are_the_rows_in_their_order(count: int) -> None:
    found = list(parts(range(count)))
    assert [row for part in found for row in part] == list(range(count))
    assert all(len(part) in SIZES for part in found)


@pytest.mark.parametrize("count", range(1, 257))
def test_what_is_padded_has_one_of_the_sizes_and_nothing_new(count: int) -> None:
    found = padded(range(count))
    assert len(found) in SIZES
    assert list(found[:count]) == list(range(count))
    assert set(found) == set(range(count))


def test_no_batch_has_more_than_four_parts() -> None:
    assert max(len(list(parts(range(count)))) for count in range(257)) <= 4
