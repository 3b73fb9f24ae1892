"""SQL blocks are loaded by name, and migrations split into statements."""

import pytest

from wakegate_schema.store import migrations
from wakegate_schema.store.batch_sizes import filled
from wakegate_schema.store.dialects import POSTGRESQL, SQLITE
from wakegate_schema.store.queries import load_store, rows, statements, takes_more


def test_every_block_has_a_name_of_its_own() -> None:
    queries = load_store(SQLITE)
    assert queries["probe"] == "UPDATE probe SET writes = writes + 1"
    assert not any(text.rstrip().endswith(";") or not text for text in queries.values())


def test_a_batch_repeats_its_row_placeholder() -> None:
    assert rows("INSERT INTO t VALUES (?, ?){rows}", 3) == "INSERT INTO t VALUES (?, ?), (?, ?), (?, ?)"


def test_a_batch_goes_as_rows_or_as_arrays_and_may_have_rows_of_nulls_as_rows() -> None:
    block = "WITH item (id, at) AS {batch text, bigint} UPDATE t SET at = item.at FROM item WHERE t.id = item.id"
    assert "AS (SELECT * FROM unnest(%b::text[], %b::bigint[]))" in POSTGRESQL.say(block)
    query = SQLITE.say(block)
    assert takes_more(query)
    assert "AS (VALUES (?, ?), (?, ?))" in rows(query, 2)
    assert filled([("a", 1)] * 3) == [*[("a", 1)] * 3, (None, None)]


def test_a_trigger_is_one_statement() -> None:
    script = "-- why\nCREATE TABLE t (a);\n\nCREATE TRIGGER x AFTER INSERT ON t\nBEGIN\n    SELECT 1;\nEND;\n"
    assert statements(script) == [
        "CREATE TABLE t (a)",
        "CREATE TRIGGER x AFTER INSERT ON t\nBEGIN\n    SELECT 1;\nEND",
    ]


def test_a_script_that_breaks_off_is_refused() -> None:
    with pytest.raises(ValueError, match="inside a statement"):
        statements("CREATE TABLE t (\n    a")


def test_migrations_are_numbered_without_gaps() -> None:
    assert list(migrations.available()) == list(range(1, len(migrations.available()) + 1))
