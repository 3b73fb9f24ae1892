"""The store, the receiver, the worker and the harness agree with a small reference, whatever happens in what order."""

import os

import pytest
from model.focus import ALL, EVERYTHING, Focus
from model.machine import Machine
from model.searching import BATCH, search
from model.shelf import DATABASE

SOME = 10
"""Histories of each kind: by then most planted faults are found. `make model` searches as many as it is told to."""
FEW = 4
"""Histories on PostgreSQL, where each takes its time, unless that is asked for: what differs is the store alone."""
WANTED = os.environ.get(DATABASE)


@pytest.mark.skipif(WANTED == "postgresql", reason=f"{DATABASE} asks for the other one")
@pytest.mark.usefixtures("on_sqlite")
@pytest.mark.parametrize("about", ALL, ids=lambda about: about.name.replace(" ", "_"))
def test_the_program_agrees_with_the_reference(about: Focus) -> None:
    class Searching(Machine):
        focuses = (about,)

    search(Searching, batches=3 if about is EVERYTHING else 1, histories=SOME)


@pytest.mark.skipif(WANTED == "sqlite", reason=f"{DATABASE} asks for the other one")
@pytest.mark.usefixtures("on_postgresql")
@pytest.mark.parametrize("about", ALL if WANTED else (EVERYTHING,), ids=lambda about: about.name.replace(" ", "_"))
def test_the_program_on_postgresql_agrees_with_the_reference(about: Focus) -> None:
    class Searching(Machine):
        focuses = (about,)

    search(Searching, batches=1, histories=BATCH if WANTED else FEW)
