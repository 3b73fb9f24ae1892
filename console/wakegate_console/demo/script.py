"""The demo's script: what is done to each call, in the order it is done."""

import asyncio
import json
from collections.abc import Callable, Iterable

from wakegate_console import listing
from wakegate_console.demo import cases
from wakegate_console.demo.cases import CASES, Case
from wakegate_console.demo.report import Finding
from wakegate_console.demo.stage import Stage
from wakegate_console.provisioning import Keys, Order, provision
from wakegate_provider.review import list_requests
from wakegate_schema import clock, timestamps
from wakegate_schema.keys import ensure_key, load_key
from wakegate_schema.records import Execution, Notification
from wakegate_schema.sealing import unseal_credential
from wakegate_schema.secret_files import load_bearer_token
from wakegate_schema.states import State
from wakegate_schema.store import Store
from wakegate_worker.aap import AapClient
from wakegate_worker.outbound import open_session

HARNESS = "wakegate_console.demo.harness"

Say = Callable[[str], None]


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
        self._say("one call is approved, one denied, one cancelled, one claimed by the harness")
        await asyncio.gather(self._review(), self._cancel(), self._claim(), self._duplicate())
        await self._resolved(cases.REVIEW, cases.DENIED, cases.CANCELLED, cases.CLAIMED)
        self._say("the worker is killed with SIGKILL; two calls that wait are approved now")
        await self._outage()
        self._say("the worker is started again")
        await self._stage.start_worker()
        await self._resolved(*CASES)

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
                    decision="-" if request is None else f"{request['status']}, {request['decided_by']}",
                    duplicates=0 if notification is None else notification.duplicates,
                )
            )
        return found

    async def _provision(self) -> None:
        settings = self._stage.settings
        keys = Keys(receiver=ensure_key(settings.receiver_key_path), worker=ensure_key(settings.worker_key_path))
        token = load_bearer_token(settings.provider_provisioner_token_path, "the provisioner token")
        order = Order(self._stage.provider_url, self._stage.webhook_url, "refund-desk")
        await provision(self._store, keys, order, token, clock.now())

    async def _suspend(self) -> None:
        answer = json.loads(await self._stage.processes.run_module("harness", HARNESS, "suspend"))
        self._ids = {case: answer[case.name] for case in CASES}

        async def submitted() -> bool:
            return all([(await self._execution(case)).request_id is not None for case in CASES])

        await self._stage.until("the worker to submit every call", submitted, 10)

    async def _review(self) -> None:
        await asyncio.gather(
            self._decide(cases.REVIEW, "approve", "--note", "Checked with the customer."),
            self._decide(cases.DENIED, "deny", "--note", cases.DENIAL),
            self._decide(cases.CLAIMED, "approve"),
        )

    async def _decide(self, case: Case, *decision: str) -> None:
        request_id = await self._request_id(case)
        await self._stage.processes.run("review", "provider", "decide", request_id, *decision)

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

    async def _duplicate(self) -> None:
        """Have a notification delivered twice, and wait until the receiver has counted the second."""
        await self._resolved(cases.DUPLICATED)
        request_id = await self._request_id(cases.DUPLICATED)

        async def came(times: int) -> bool:
            notification = (await self._notifications()).get(request_id)
            return notification is not None and notification.duplicates >= times - 1

        await self._stage.until("the first notification", lambda: came(1), 10)
        event_id = (await self._notifications())[request_id].event_id
        await self._stage.processes.run("redelivery", "provider", "redeliver", event_id)
        await self._stage.until("the repeated notification", lambda: came(2), 10)

    async def _outage(self) -> None:
        """Kill the worker, approve two calls, and let one of the approvals lapse."""
        await self._stage.processes.kill("worker")
        await asyncio.gather(
            self._decide(cases.LAPSED, "approve", "--expires-in", "1s"),
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

        await self._stage.until("the approval to lapse", over, 10)

    async def _resolved(self, *wanted: Case) -> None:
        async def all_are() -> bool:
            return all([(await self._execution(case)).resolved for case in wanted])

        await self._stage.until(f"{_names(wanted)} to be resolved", all_are, 15)

    async def _execution(self, case: Case) -> Execution:
        return await self._store.execution(self._ids[case])

    async def _request_id(self, case: Case) -> str:
        return (await self._execution(case)).request_id or ""

    async def _notifications(self) -> dict[str, Notification]:
        """Return the notifications by request."""
        return {record.request_id: record async for record in listing.paged(self._store.notifications)}


def _names(wanted: Iterable[Case]) -> str:
    return ", ".join(case.tells for case in wanted)
