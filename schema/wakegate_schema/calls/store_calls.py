"""The calls of a harness over the store: for the harness that opens it, and for the control API on behalf of others."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from wakegate_schema import clock
from wakegate_schema.calls import checks, claiming, stream, telling
from wakegate_schema.calls.call import Call, check_visible
from wakegate_schema.calls.calls import HOLD_S, LEASE_S
from wakegate_schema.calls.choosing import choose
from wakegate_schema.calls.grant import Grant
from wakegate_schema.calls.saving import save
from wakegate_schema.calls.scope import EVERYTHING, Scope
from wakegate_schema.calls.standing import Standing, Taken
from wakegate_schema.calls.watch import Watch
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Execution, Identity, Instance, Lease, Outcome, Runs
from wakegate_schema.resolution import Resolution
from wakegate_schema.states import State
from wakegate_schema.store import Store
from wakegate_schema.store.verbs.executions import not_there

PATIENCE_S: Final = 5.0
"""How long an unavailable store is tried again once a claim is committed, in seconds."""


class StoreCalls:
    """The verbs, over an open store, within a scope. See `Calls` for what each does and raises."""

    def __init__(
        self,
        store: Store,
        scope: Scope = EVERYTHING,
        *,
        lease: float = LEASE_S,
        patience: float = PATIENCE_S,
        watch: Watch | None = None,
    ) -> None:
        """Take the store, which `close` closes, and who asks.

        Args:
            store: where the calls are.
            scope: who asks, and which instances are theirs.
            lease: seconds that the lease of a claimed call lasts without being renewed.
            patience: seconds for which an unavailable store is tried again once a claim is committed.
            watch: shared by everybody in this process who waits on this store; a new one when None.
        """
        self._store = store
        self._scope = scope
        self._terms = claiming.Terms(scope.actor, lease, patience)
        self._watch = watch or Watch(store)

    async def suspend(
        self, call: Call, runs: Runs, wake: str, *, hold_id: str | None = None, hold_seconds: float = HOLD_S
    ) -> tuple[Standing, bool]:
        """Save a call durably, or find what its key saved before."""
        if hold_id is not None:
            checks.check_hold(hold_id, hold_seconds)
        hold = None if hold_id is None else (hold_id, int(hold_seconds * SECOND))
        saved = await save(self._store, self._scope, call, runs, wake, hold)
        return await telling.tell(self._store, saved.execution), saved.created

    async def show(self, execution_id: str, *, unlike: str | None = None, wait: float = 0.0) -> Standing:
        """Return where a call stands, at the latest after `wait` seconds."""
        loop = asyncio.get_running_loop()
        until, seen = loop.time() + wait, self._watch.number
        execution = await self._find(execution_id)
        standing = await telling.tell(self._store, execution)
        while standing.version == unlike and (left := until - loop.time()) > 0:
            await self._watch.changed(seen, left)
            seen, before = self._watch.number, execution
            execution = await self._store.execution(before.execution_id)
            if execution != before:
                standing = await telling.tell(self._store, execution)
        return standing

    async def listed(
        self, *, state: State | None = None, group: str | None = None, before: int | None = None, limit: int = 100
    ) -> tuple[list[Standing], int | None]:
        """Return a page of calls, the latest first."""
        if group is not None:
            check_visible(group, "group")
        found = await self._store.executions_of(await self._identities(), before, limit, state, group)
        standings = [await telling.tell(self._store, execution) for _, execution in found]
        return standings, found[-1][0] if len(found) == limit else None

    async def keep_hold(self, execution_id: str, hold_id: str, hold_seconds: float = HOLD_S) -> bool:
        """Lengthen a hold."""
        checks.check_hold(hold_id, hold_seconds)
        execution = await self._find(execution_id)
        at = clock.now()
        return await self._store.keep_hold(execution.execution_id, hold_id, at + int(hold_seconds * SECOND), at)

    async def take(self, execution_id: str, claim_id: str) -> Taken:
        """Claim a permitted call."""
        check_visible(claim_id, "claim_id")
        return await claiming.claim(self._store, await self._find(execution_id), claim_id, self._terms)

    async def renew(self, grant: Grant) -> bool:
        """Lengthen the lease of a taken call."""
        lease, at = await self._lease(grant), clock.now()
        return await self._store.renew(lease, at, at + self._lasting, grant.token)

    async def runs_on(self, grant: Grant) -> bool:
        """Say that a taken call goes on although its lease is lost."""
        lease = await self._lease(grant)
        return await self._store.runs_on(lease, clock.now() + self._lasting, grant.token)

    async def finish(self, grant: Grant, outcome: Outcome) -> Standing:
        """Record how a taken call ended."""
        lease = await self._lease(grant)
        finished = await self._store.finish(lease, outcome, clock.now(), grant.token, self._scope.actor)
        return await telling.tell(self._store, finished)

    async def abandon(self, execution_id: str, reason: str) -> Standing:
        """Give a call up before it starts."""
        checks.check_reason(reason)
        execution = await self._find(execution_id)
        given_up = await self._store.abandon(execution.execution_id, reason, self._scope.actor, clock.now())
        return await telling.tell(self._store, given_up)

    async def seal(
        self, group: str, instance: str | None = None, *, after: int | None = None, limit: int = 100
    ) -> tuple[list[Standing], int | None]:
        """Say that a group is complete."""
        check_visible(group, "group")
        chosen = choose(await self._instances(), instance)
        await self._store.seal_group(chosen.provider, chosen.instance_id, group, clock.now())
        found = await self._store.group_calls(chosen.provider, chosen.instance_id, group, after or 0, limit)
        standings = [await telling.tell(self._store, execution) for _, execution in found]
        return standings, found[-1][0] if len(found) == limit else None

    def resolutions(self, after: str | None = None) -> AsyncGenerator[tuple[str, Resolution], None]:
        """Yield what harnesses are told, in order and without end."""
        return stream.told_after(self._store, self._watch, self._instances, after)

    async def end_of_stream(self) -> str:
        """Return the place in the stream of what was told last: where `resolutions()` would begin now."""
        return stream.cursor(await self._store.resolutions_end())

    async def close(self) -> None:
        """Close the store; whoever still waits hears of it."""
        await self._watch.close()
        await self._store.close()

    @property
    def _lasting(self) -> int:
        return int(self._terms.lease * SECOND)

    async def _instances(self) -> list[Instance]:
        return self._scope.within(await self._store.instances())

    async def _identities(self) -> list[Identity]:
        return [instance.identity for instance in await self._instances()]

    async def _find(self, execution_id: str) -> Execution:
        """Return an execution of this scope. Raises `NotFound`, the same for one out of it and for one that is not."""
        execution_id = checks.execution_id(execution_id)
        theirs = None if self._scope.names is None else await self._identities()
        execution = await self._store.execution(execution_id)
        if theirs is not None and (execution.provider, execution.instance_id) not in theirs:
            raise not_there(execution_id)
        return execution

    async def _lease(self, grant: Grant) -> Lease:
        return Lease((await self._find(grant.execution_id)).execution_id, grant.number)
