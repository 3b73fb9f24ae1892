"""Submission: the saved call is put to the provider under its saved key, however often that takes."""

from collections.abc import Callable, Collection, Mapping

from wakegate_schema.records import Execution
from wakegate_schema.states import OLDER_EPOCH, State
from wakegate_schema.store import Store
from wakegate_worker.boundary import Close, Refusal, check, identity_of
from wakegate_worker.decisions import DecisionSource, Reading
from wakegate_worker.log import log
from wakegate_worker.registry import Tool, has_tool
from wakegate_worker.stopping import Stop


class Submission:
    """Takes an execution from saved to waiting. A crash anywhere in between is followed by the same again."""

    def __init__(
        self,
        store: Store,
        tools: Mapping[str, Tool],
        *,
        targets: Collection[str],
        now: Callable[[], int],
        stop: Stop,
    ) -> None:
        """Take the store, this worker's tools and names of wake targets, the wall clock in µs and the stop."""
        self._store = store
        self._tools = tools
        self._targets = targets
        self._now = now
        self._stop = stop

    def can_begin(self, execution: Execution) -> bool:
        """Return whether it may be submitted from here: nobody is asked to approve what nobody can run.

        What was begun goes on everywhere, under its key; and a call that a harness runs needs no tool.
        """
        needs_tool = execution.state is State.SAVED and execution.runs == "worker"
        return not needs_tool or has_tool(self._tools, execution.tool, execution.tool_version)

    async def submit(self, execution: Execution, source: DecisionSource) -> tuple[Execution, Reading] | None:
        """Submit a leased execution and attach its request.

        The commit of `submitting` comes before the first byte, so the provider never knows a call that the store
        does not expect it to know.

        Returns:
            The execution as it waits now, with the provider's answer, which may hold the decision already; None when
            there is nothing left to do: it was refused, abandoned, taken over or held for a release.

        Raises:
            DecisionError: there was no answer to go on with.
            Interrupted: a stop broke it off; the same will be submitted again.
        """
        tool = self._tools.get(execution.tool)
        version = None if tool is None else tool.version
        if not await self._store.begin_submission(execution.lease, version, self._now()):
            log.info("the lease is lost", action="submit")
            return None
        if execution.state is State.SAVED and execution.wake not in self._targets:
            log.warning(
                "no such wake target: nobody will be woken until a worker knows it",
                action="submit",
                target=execution.wake,
                hint=f"name it as [wake.{execution.wake}] in wakegate.toml and restart the worker",
            )
        with self._stop.interruptible():
            reading = await source.submit(execution)
        if await self._refused(execution, reading):
            return None
        identity = identity_of(reading.request)
        attached = await self._store.attach(execution.execution_id, identity, self._now())
        log.info("submitted", action="submit", request_id=attached.request_id, status=reading.request.status)
        if attached.problem == OLDER_EPOCH:
            log.warning(
                "held: its request may be older than the restore of this store, and then the call may have run",
                action="submit",
                problem=OLDER_EPOCH,
                hint="find out, then `wakegate execution release` or `abandon`",
            )
            return None
        if attached.state is not State.WAITING or attached.lease != execution.lease:
            return None
        return attached, reading

    async def _refused(self, execution: Execution, reading: Reading) -> bool:
        now = self._now()
        verdict = check(execution, reading.request, now)
        if not isinstance(verdict, Close) or verdict.closing.state is not State.REFUSED:
            return False
        if verdict.closing.reason == Refusal.TIME_IN_FUTURE:  # the request is ours; whose clock is wrong is seen later
            return False
        log.error("refused", action="refuse", reason=verdict.closing.reason)
        await self._store.close_unstarted(execution.lease, verdict.closing, now)
        return True
