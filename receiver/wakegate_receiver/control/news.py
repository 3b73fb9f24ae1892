"""News: one look at the log of resolutions for all streams, which says whose turn it is to read."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from wakegate_schema.calls.watch import REREAD_S, Watch
from wakegate_schema.records import Identity, Instance
from wakegate_schema.store import Store, StoreUnavailable

PAGE: Final = 200
"""How many lines of the log are looked at at once; each is small."""


class Ear:
    """One stream that wants to know when there is something for it."""

    def __init__(self) -> None:
        """Know of no instance yet: everything concerns it."""
        self.fresh = asyncio.Event()
        self._theirs: frozenset[Identity] = frozenset()
        self._known: frozenset[Identity] = frozenset()

    def takes_in(self, theirs: list[Instance], known: list[Instance]) -> None:
        """Say which instances concern it, of all there are."""
        self._theirs, self._known = _identities(theirs), _identities(known)

    def hears(self, identity: Identity) -> None:
        """Take note that something was told of this instance; one that is new may be the stream's."""
        if identity in self._theirs or identity not in self._known:
            self.fresh.set()


class News:
    """Looks at the log while anybody wants to know."""

    def __init__(self, store: Store, watch: Watch) -> None:
        """Take the store, and what tells of changes in it."""
        self._store = store
        self._watch = watch
        self._ears: set[Ear] = set()
        self._wanted = asyncio.Event()

    @contextmanager
    def ear(self) -> Iterator[Ear]:
        """Give an ear for the length of the block; whatever is told from now on reaches it."""
        ear = Ear()
        self._ears.add(ear)
        self._wanted.set()
        try:
            yield ear
        finally:
            self._ears.discard(ear)
            if not self._ears:
                self._wanted.clear()

    async def follow(self) -> None:
        """Look until cancelled. While the store cannot be read, everybody is told to look for themselves."""
        while True:
            await self._wanted.wait()
            try:
                await self._look()
            except StoreUnavailable:
                await asyncio.sleep(REREAD_S)

    async def _look(self) -> None:
        place = await self._store.resolutions_end()
        for ear in self._ears:
            ear.fresh.set()
        while self._ears:
            seen = self._watch.number
            lines = await self._store.resolutions(None, place, PAGE)
            for identity in {(line.provider, line.instance_id) for line in lines}:
                for ear in self._ears:
                    ear.hears(identity)
            if lines:
                place = lines[-1].place
            if len(lines) < PAGE:
                await self._watch.changed(seen, REREAD_S)


def _identities(instances: list[Instance]) -> frozenset[Identity]:
    return frozenset(instance.identity for instance in instances)
