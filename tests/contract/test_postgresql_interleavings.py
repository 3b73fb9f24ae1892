"""The interleavings of `test_store_interleavings.py` on PostgreSQL: fewer, because each commit costs more."""

from contract.test_store_interleavings import STEPS, agree
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.desk import Desk
from wakegate_schema.store import Store


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=1, max_size=25))
async def test_the_store_and_the_small_model_agree(desk: Desk, store: Store, steps: list[tuple[str, object]]) -> None:
    await agree(desk, store, steps)
