"""Searching: which histories are looked at, and that they are the same ones every time unless others are asked for."""

import os
import random
from collections.abc import Iterable
from typing import Final

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

HISTORIES: Final = "WAKEGATE_TEST_HISTORIES"
"""Names how many histories of each kind to search at random, each twice as long; without it, the same few each time."""
BATCH: Final = 25
"""Histories under one seed. Hypothesis varies what it has found, so many seeds see more than one."""
STEPS: Final = 30


def search(machine: type[RuleBasedStateMachine], batches: int, histories: int = BATCH) -> None:
    """Search for a history in which the program disagrees with the reference; raise what was found, made short.

    Args:
        machine: makes the histories.
        batches: how many to search, each under a seed of its own, unless the environment says how many histories.
        histories: in one batch.
    """
    wanted = os.environ.get(HISTORIES)
    if wanted is None:
        _search(machine, range(batches), _settings(histories, STEPS, Phase.generate, Phase.shrink))
        return
    seeds = (random.SystemRandom().randrange(2**32) for _ in range(0, int(wanted), BATCH))
    _search(machine, seeds, _settings(BATCH, 2 * STEPS, Phase.generate, Phase.shrink))


def search_until_found(machine: type[RuleBasedStateMachine], batches: int) -> None:
    """Search the same histories every time; raise what was found first, as it was found."""
    _search(machine, range(batches), _settings(BATCH, STEPS, Phase.generate))


def _search(machine: type[RuleBasedStateMachine], seeds: Iterable[int], wanted: settings) -> None:
    for number in seeds:
        try:
            run_state_machine_as_test(seed(number)(machine), settings=wanted)
        except AssertionError as error:
            error.add_note(f"found under seed {number}, {wanted.stateful_step_count} steps")
            raise


def _settings(histories: int, steps: int, *phases: Phase) -> settings:
    return settings(
        max_examples=histories,
        stateful_step_count=steps,
        phases=phases,
        database=None,
        deadline=None,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
