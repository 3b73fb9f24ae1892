"""The store, the receiver, the worker and the harness agree with a small reference, whatever happens in what order."""

import pytest
from model.focus import ALL, EVERYTHING, Focus
from model.machine import Machine
from model.searching import search


@pytest.mark.parametrize("about", ALL, ids=lambda about: about.name.replace(" ", "_"))
def test_the_program_agrees_with_the_reference(about: Focus) -> None:
    class Searching(Machine):
        focuses = (about,)

    search(Searching, batches=3 if about is EVERYTHING else 1)
