"""The AAP client: one instance's requests at its provider (AAP, requests). A `DecisionSource`."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import aiohttp

from wakegate_schema import ids, strict_json, urls
from wakegate_schema.records import Execution
from wakegate_schema.sealing import Credential
from wakegate_schema.strict_json import JsonObject, MalformedJson
from wakegate_schema.wire import MAX_WAIT_S, OutcomeStatus
from wakegate_worker.aap_answers import error_code, failure, reading, submission_failure
from wakegate_worker.decisions import (
    CancelAnswer,
    ConsumeRefusal,
    InvalidAnswer,
    Reading,
    ReportAnswer,
    SubmissionRejected,
    Unreachable,
)
from wakegate_worker.outbound import Answer, Caller, Limits, Unanswered, exchange


class AapClient:
    """Speaks for one instance, with its credential, to the provider the credential was sealed for and no other."""

    def __init__(self, session: aiohttp.ClientSession, credential: Credential, *, limits: Limits | None = None) -> None:
        """Take what is needed to ask.

        Args:
            session: from `outbound.open_session`, shared by all instances.
            credential: as unsealed; its provider is the base URL.
            limits: for every exchange; a long poll has its wait on top.

        Raises:
            MalformedUrl: the base URL is neither HTTPS nor on loopback.
        """
        self._session = session
        self._base = urls.base_url(credential.provider)
        self._token = credential.token
        self._limits = limits or Limits()

    async def submit(self, execution: Execution) -> Reading:
        """Submit the saved call under its saved key; 201 for a new request and 200 for a repeat are the same here.

        Raises:
            SubmissionRejected: the provider's own word that it never will take this call, or a call that cannot
                be put into a submission at all.
        """
        headers = {"Content-Type": "application/json", "Idempotency-Key": _key(execution)}
        answer = await self._ask("submit", "POST", "/v1/requests", headers=headers, body=submission(execution))
        if answer.status in (200, 201):
            return reading(answer, "the submission")
        raise submission_failure(answer)

    async def read(self, execution: Execution, wait_s: float) -> Reading:
        """Read the request, as a long poll when `wait_s` is a second or more (at most 30)."""
        return await self.read_request(execution.request_id or "", wait_s)

    async def read_request(self, request_id: str, wait_s: float = 0.0) -> Reading:
        """Read a request by its id, as `read`."""
        wait = max(0, min(int(wait_s), MAX_WAIT_S))
        path = _path(request_id) + (f"?wait={wait}s" if wait else "")
        answer = await self._ask("poll" if wait else "read", "GET", path, wait_s=wait)
        if answer.status == 200:
            return reading(answer, "the read")
        raise failure(answer, "the read")

    async def cancel(self, execution: Execution) -> CancelAnswer:
        """Cancel the request; repeating it is harmless."""
        answer = await self._ask("cancel", "DELETE", _path(execution.request_id))
        if answer.status == 200:
            found = reading(answer, "the cancel").request
            if found.id != execution.request_id or found.status != "cancelled":
                raise InvalidAnswer("the answer to the cancel is not this request, cancelled")
            return CancelAnswer.CANCELLED
        code = error_code(answer)
        if answer.status == 409 and code == "already_terminal":
            return CancelAnswer.ALREADY_TERMINAL
        if answer.status == 404 and code is not None:
            return CancelAnswer.NOT_FOUND
        raise failure(answer, "the cancel")

    async def consume(self, execution: Execution, key: str) -> Reading | ConsumeRefusal:
        """Consume the approval; the same key gets the same 200 for as long as the request is kept.

        Where there is no such operation, providers answer as they like: whatever a 404 or 405 holds means that.
        """
        path = f"{_path(execution.request_id)}/consume"
        answer = await self._ask("consume", "POST", path, headers={"Idempotency-Key": key})
        if answer.status == 200:
            return reading(answer, "the consumption")
        if answer.status in _NO_SUCH_OPERATION:
            return ConsumeRefusal.UNSUPPORTED
        refusal = _CONSUME_REFUSALS.get(error_code(answer)) if answer.status == 409 else None
        if refusal is None:
            raise failure(answer, "the consumption")
        return refusal

    async def report(self, execution: Execution, status: OutcomeStatus, note: str | None) -> ReportAnswer:
        """Report the outcome of a consumed call; the first word stays."""
        body = strict_json.dumps({"status": status} if note is None else {"status": status, "note": note})
        path, headers = f"{_path(execution.request_id)}/outcome", {"Content-Type": "application/json"}
        answer = await self._ask("report", "POST", path, headers=headers, body=body)
        if answer.status == 200:
            if reading(answer, "the report").request.id != execution.request_id:
                raise InvalidAnswer("the answer to the report is not about this request")
            return ReportAnswer.TOLD
        code = error_code(answer)
        if answer.status in _NO_SUCH_OPERATION and code is not None:  # not the page of what stands in front of it
            return ReportAnswer.NOT_FOUND
        settled = _REPORT_ANSWERS.get(code) if answer.status == 409 else None
        if settled is None:
            raise failure(answer, "the report")
        return settled

    async def _ask(
        self,
        caller: Caller,
        method: str,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
        wait_s: float = 0.0,
    ) -> Answer:
        limits = replace(self._limits, total_s=self._limits.total_s + wait_s) if wait_s else self._limits
        sent = {"Accept": "application/json", "Authorization": f"Bearer {self._token.reveal()}"}
        if headers is not None:
            sent |= headers
        try:
            return await exchange(
                self._session, method, self._base + path, headers=sent, body=body, limits=limits, caller=caller
            )
        except Unanswered as error:
            raise Unreachable(f"the provider is not reached: {error}", reason=error.reason) from None


def submission(execution: Execution) -> bytes:
    """Return the body that submits exactly the saved call: the same bytes for every repeat.

    Raises:
        SubmissionRejected: the saved call is erased, damaged or not JSON, and can never be submitted.
    """
    if execution.arguments is None:
        raise SubmissionRejected("the saved call is erased", reason="payload_erased")
    if not execution.intact:
        raise SubmissionRejected("the saved call is not the one that was suspended", reason="digest_differs")
    try:
        body: JsonObject = {
            "tool": execution.tool,
            "arguments": _object(execution.arguments),
            "timeout": execution.timeout,
        }
        if execution.reasoning is not None:
            body["agent_reasoning"] = execution.reasoning
        if execution.context is not None:
            body["context"] = _object(execution.context)
        return strict_json.dumps(body)
    except (MalformedJson, UnicodeEncodeError):
        pass
    raise SubmissionRejected("the saved call is not JSON as AAP carries it", reason="payload_unreadable")


_NO_SUCH_OPERATION: Final = (404, 405)
_CONSUME_REFUSALS: Final[Mapping[str | None, ConsumeRefusal]] = {
    "already_consumed": ConsumeRefusal.ALREADY_CONSUMED,
    "not_approved": ConsumeRefusal.NOT_APPROVED,
    "approval_expired": ConsumeRefusal.APPROVAL_EXPIRED,
}
_REPORT_ANSWERS: Final[Mapping[str | None, ReportAnswer]] = {
    "outcome_conflict": ReportAnswer.OUTCOME_CONFLICT,
    "not_consumed": ReportAnswer.NOT_CONSUMED,
}
_KEY: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?")


def _object(data: bytes) -> JsonObject:
    value = strict_json.parse(data)
    if not isinstance(value, dict):
        raise MalformedJson
    return value


def _key(execution: Execution) -> str:
    key = execution.idempotency_key
    if _KEY.fullmatch(key) is None:
        raise SubmissionRejected(
            "the idempotency key does not fit into a header: use 1 to 255 printable ASCII characters",
            reason="idempotency_key_malformed",
        )
    return key


def _path(request_id: str | None) -> str:
    try:
        return f"/v1/requests/{ids.parse(request_id or '')}"
    except ids.MalformedId:
        pass
    raise InvalidAnswer("no request id is on record, or not a UUID", reason="request_id_malformed")
