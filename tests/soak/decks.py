"""Decks: kinds of trouble, shuffled and dealt so that every kind comes in every soak."""

from collections.abc import Callable, Coroutine, Iterator, MutableMapping
from random import Random
from typing import Any

Card = Callable[[], Coroutine[Any, Any, None]]
Deck = MutableMapping[str, Card]


def dealt(decks: list[Deck], random: Random) -> Iterator[tuple[str, Card]]:
    """Deal one card of every deck in each round, in any order, and none of a deck again before all of it came."""
    left: dict[int, list[str]] = {}
    while True:
        round_of = list(decks)
        random.shuffle(round_of)
        for deck in round_of:
            titles = left.setdefault(id(deck), [])
            if not titles:
                titles += deck
                random.shuffle(titles)
            title = titles.pop()
            yield title, deck[title]
