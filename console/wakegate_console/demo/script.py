"""The demo's script: what is done to each call, in the order it is done."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Literal

from wakegate_console import listing
from wakegate_console.demo import cases
from wakegate_console.demo.audience import Say
from wakegate_console.demo.cases import CASES, Case
from wakegate_console.demo.ledger import count_refunds
from wakegate_console.demo.report import Finding
from wakegate_console.demo.stage import Stage
from wakegate_console.keys_in_use import both_keys
from wakegate_console.provisioning import Order, provision
from wakegate_console.waiting import Wait
from wakegate_provider.review import decide, list_requests, redeliver
from wakegate_schema import clock, timestamps
from wakegate_schema.keys import load_key
from wakegate_schema.records import Execution, Notification
from wakegate_schema.sealing import unseal_credential
from wakegate_schema.secret_files import load_bearer_token
from wakegate_schema.states import State
from wakegate_schema.store import Store
from wakegate_worker.aap import AapClient
from wakegate_worker.outbound import open_session

HARNESS = "wakegate_console.demo.harness"

PATIENCE_S = 15.0
"""How long any one thing may take, in seconds."""


class Script:
    """Plays the demo on a stage, and finds out what became of it."""

    def __init__(self, stage: Stage, store: Store, say: Say) -> None:
        """Take where to play, the store that the services use, and what tells the audience."""
        self._stage = stage
        self._store = store
        self._say = say
        self._ids: dict[Case, str] = {}

    async def play(self) -> None:
        """Do everything. Raises a `WakegateError` when something does not come about in time."""
        self._say("provisioning an instance: the provider challenges the receiver")
        await self._provision()
        self._say(f"a harness saves {len(CASES)} refund calls and ends")
        await self._suspend()
        self._say("calls are approved, denied and cancelled; a harness claims one")
        await asyncio.gather(self._review(), self._cancel(), self._claim(), self._notified(1))
        await self._resolved(cases.POLICY, cases.REVIEW, cases.DENIED, cases.CANCELLED, cases.CLAIMED)
        self._say("the provider delivers one notification a second time")
        await self._redeliver()
        self._say("the worker is killed with SIGKILL, in the middle of a refund")
        await self._kill_while_running()
        self._say("two calls that wait are approved while no worker runs")
        await self._outage()
        self._say("the worker is started again")
        await self._stage.start_worker()
        await self._ended()

    async def findings(self) -> list[Finding]:
        """Return what the records say, once the services have ended."""
        words = {str(request["request_id"]): request for request in list_requests(self._stage.settings)}
        notifications = await self._notifications()
        found = []
        for case in CASES:
            execution = await self._execution(case)
            request_id = execution.request_id or ""
            request, notification = words.get(request_id), notifications.get(request_id)
            transitions = await self._store.transitions(execution.execution_id)
            found.append(
                Finding(
                    case=case,
                    execution=execution,
                    starts=sum(each.to_state is State.STARTED for each in transitions),
                    decision=_decision(request),
                    deliveries=0 if notification is None else 1 + notification.duplicates,
                )
            )
        return found

    async def _provision(self) -> None:
        settings = self._stage.settings
        token = load_bearer_token(settings.provider_provisioner_token_path, "the provisioner token")
        order = Order(self._stage.provider_url, self._stage.webhook_url, "refund-desk", settings.store.name)
        async with both_keys(settings, self._store) as keys:
            await provision(self._store, keys, order, token, clock.now(), Wait(PATIENCE_S, self._say))

    async def _suspend(self) -> None:
        answer = json.loads(await self._stage.processes.run_module("harness", HARNESS, "suspend"))
        self._ids = {case: answer[case.name] for case in CASES}

        async def submitted() -> bool:
            return all([(await self._execution(case)).request_id is not None for case in CASES])

        await self._stage.until("the worker to submit every call", submitted, PATIENCE_S)

    async def _review(self) -> None:
        await self._decide(cases.REVIEW, "approve", note="Checked with the customer.")
        await self._decide(cases.DENIED, "deny", note=cases.DENIAL)
        await self._decide(cases.CLAIMED, "approve")

    async def _decide(
        self,
        case: Case,
        decision: Literal["approve", "deny"],
        *,
        note: str | None = None,
        expires_in: str | None = None,
    ) -> None:
        """Decide as the reviewer, the way `wakegate provider decide` does."""
        request_id = await self._request_id(case)
        settings = self._stage.settings
        await asyncio.to_thread(decide, settings, request_id, decision, note=note, expires_in=expires_in)

    async def _cancel(self) -> None:
        """Cancel a request at the provider, as the holder of the instance's credential."""
        execution = await self._execution(cases.CANCELLED)
        instance = await self._store.instance(execution.provider, execution.instance_id)
        credential = unseal_credential(
            load_key(self._stage.settings.worker_key_path),
            instance.sealed_credential or b"",
            provider=instance.provider,
            instance_id=instance.instance_id,
        )
        async with open_session() as session:
            await AapClient(session, credential).cancel(execution)

    async def _claim(self) -> None:
        await self._stage.processes.run_module("claimer", HARNESS, "claim", self._ids[cases.CLAIMED])

    async def _notified(self, times: int) -> None:
        """Wait until the receiver has counted so many deliveries of the duplicated notification."""
        request_id = await self._request_id(cases.DUPLICATED)

        async def came() -> bool:
            notification = (await self._notifications()).get(request_id)
            return notification is not None and notification.duplicates >= times - 1

        await self._stage.until(f"a notification to come {times} times", came, PATIENCE_S)

    async def _redeliver(self) -> None:
        event_id = (await self._notifications())[await self._request_id(cases.DUPLICATED)].event_id
        await asyncio.to_thread(redeliver, self._stage.settings, event_id)
        await self._notified(2)

    async def _kill_while_running(self) -> None:
        """Approve a call, and kill the worker when its effect is there and its tool has not returned."""
        await self._decide(cases.KILLED, "approve")

        async def happened() -> bool:
            return count_refunds(self._stage.ledger)[cases.KILLED.name] > 0

        await self._stage.until("the refund to be made", happened, PATIENCE_S)
        await self._stage.processes.kill("worker")

    async def _outage(self) -> None:
        """Approve two calls while there is no worker, and let one of the approvals lapse."""
        await asyncio.gather(
            self._decide(cases.LAPSED, "approve", expires_in="1s"),
            self._decide(cases.SURVIVOR, "approve"),
        )
        lapsing, surviving = await self._request_id(cases.LAPSED), await self._request_id(cases.SURVIVOR)
        ends = [
            timestamps.parse(str(request["expires_at"]))
            for request in list_requests(self._stage.settings, status="approved")
            if request["request_id"] == lapsing
        ]

        async def over() -> bool:
            received = await self._notifications()
            return {lapsing, surviving} <= received.keys() and all(end < clock.now() for end in ends)

        await self._stage.until("the approval to lapse", over, PATIENCE_S)

    async def _ended(self) -> None:
        """Wait until every call is where it stays without a person."""
        await self._resolved(*(case for case in CASES if case is not cases.KILLED))

        async def in_doubt() -> bool:
            return (await self._execution(cases.KILLED)).state is State.IN_DOUBT

        await self._stage.until(f"{cases.KILLED.tells} to be in doubt", in_doubt, PATIENCE_S)

    async def _resolved(self, *wanted: Case) -> None:
        async def all_are() -> bool:
            return all([(await self._execution(case)).resolved for case in wanted])

        await self._stage.until(f"{_names(wanted)} to be resolved", all_are, PATIENCE_S)

    async def _execution(self, case: Case) -> Execution:
        return await self._store.execution(self._ids[case])

    async def _request_id(self, case: Case) -> str:
        return (await self._execution(case)).request_id or ""

    async def _notifications(self) -> dict[str, Notification]:
        """Return the notifications by request."""
        return {record.request_id: record async for record in listing.paged(self._store.latest_notifications)}


def _decision(request: Mapping[str, object] | None) -> str:
    """Return what a request came to, and by whom where there is a choice."""
    if request is None:
        return "-"
    by = f", {request['decided_by']}" if request["status"] in ("approved", "denied") else ""
    return f"{request['status']}{by}"


def _names(wanted: Iterable[Case]) -> str:
    return ", ".join(case.tells for case in wanted)
