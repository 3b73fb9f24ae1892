"""The model finds faults: each of these, planted into one function or query, is told by a disagreement."""

import pytest
from model.focus import Focus
from model.machine import Machine
from model.plants import PLANTS, Plant
from model.reference import Disagreement
from model.searching import search_until_found

BATCHES = 16
"""Searched for one fault at most; most are found in the first ten histories."""

pytestmark = pytest.mark.usefixtures("on_sqlite")


@pytest.mark.parametrize(("plant", "about"), PLANTS.items(), ids=[plant.__name__ for plant in PLANTS])
def test_a_planted_fault_is_found(plant: Plant, about: Focus, monkeypatch: pytest.MonkeyPatch) -> None:
    class Searching(Machine):
        focuses = (about,)

    plant(monkeypatch)
    with pytest.raises(Disagreement):
        search_until_found(Searching, BATCHES)
