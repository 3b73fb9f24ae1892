"""AAP answers: from an HTTP answer to a reading, or to the one error it means. Shows nothing the provider wrote."""

import re
from contextlib import suppress
from typing import Final

from wakegate_schema import ids, strict_json
from wakegate_schema.errors import WakegateError
from wakegate_schema.wire import ApprovalRequest, MalformedObject, parse_object
from wakegate_worker.answer_times import retry_after_s, server_date
from wakegate_worker.decisions import (
    CredentialRefused,
    DecisionError,
    InvalidAnswer,
    Reading,
    SubmissionRejected,
    Unreachable,
)
from wakegate_worker.outbound import Answer

KNOWN_REJECTIONS: Final = frozenset({"idempotency_conflict"})
"""Error codes of a final rejection that are kept as its reason."""


def reading(answer: Answer, what: str) -> Reading:
    """Return the request in a successful answer.

    Args:
        answer: one whose status says success.
        what: what was asked, for the message: "the read".

    Raises:
        InvalidAnswer: it is not JSON under the limits, encoded, or no ApprovalRequest.
    """
    fault = _envelope_fault(answer)
    if fault is None and answer.body is not None:
        try:
            request = parse_object(ApprovalRequest, answer.body)
        except MalformedObject as error:
            fault = str(error)
        else:
            return Reading(request, server_date(answer), answer.received_monotonic)
    raise InvalidAnswer(f"the answer to {what} is no approval request: {fault}{_trace(answer)}")


def failure(answer: Answer, what: str) -> DecisionError:
    """Return the error that an unsuccessful answer means; `what` as in `reading`."""
    status = answer.status
    if status in (401, 403):
        return CredentialRefused(
            f"the provider refused the credential for {what} with {status}{_trace(answer)};"
            " give the instance a new credential"
        )
    if 200 <= status < 300:
        return InvalidAnswer(f"{status} is no answer to {what}{_trace(answer)}")
    if 300 <= status < 400:
        return Unreachable(
            f"the provider redirects {what} ({status}), which is never followed; correct its base URL",
            reason="redirect",
        )
    reason = "not_found" if status == 404 else f"http_{status}"
    return Unreachable(
        f"the provider answered {what} with {status}{_trace(answer)}",
        reason=reason,
        retry_after_s=retry_after_s(answer),
    )


def submission_failure(answer: Answer) -> DecisionError:
    """Return the error that an unsuccessful answer to a submission means.

    It is final only when it is the provider's own word, an error object: a proxy's 400 page decides nothing.
    """
    code = error_code(answer)
    if not 400 <= answer.status < 500 or answer.status in _NOT_FINAL or code is None:
        return failure(answer, "the submission")
    return SubmissionRejected(
        f"the provider rejected the submission for good with {answer.status}{_trace(answer)}",
        reason=code if code in KNOWN_REJECTIONS else None,
        code=code,
    )


def error_code(answer: Answer) -> str | None:
    """Return the `code` of the provider's error object, or None when there is none to be trusted as one."""
    if _envelope_fault(answer) is not None or answer.body is None or len(answer.body) > _MAX_ERROR_BODY:
        return None
    try:
        body = strict_json.parse(answer.body)
    except WakegateError:
        return None
    error = body.get("error") if isinstance(body, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None


_NOT_FINAL: Final = frozenset({401, 403, 404, 407, 408, 421, 425, 429})
_MAX_ERROR_BODY: Final = 65_536
_CODE: Final = re.compile(r"(?=.{1,64}\Z)[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_JSON_TYPE: Final = re.compile(r'application/json[ \t]*(?:;[ \t]*charset[ \t]*=[ \t]*"?utf-?8"?[ \t]*)?', re.IGNORECASE)


def _envelope_fault(answer: Answer) -> str | None:
    if answer.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        return "it is encoded, which was not accepted"
    if len(answer.headers.getall("Content-Type", [])) != 1:
        return "it has no single Content-Type"
    if _JSON_TYPE.fullmatch(answer.headers["Content-Type"].strip()) is None:
        return "its Content-Type is not application/json"
    if answer.body is None:
        return "it is too long or did not arrive whole"
    return None


def _trace(answer: Answer) -> str:
    """Return what helps the provider's operator to find this answer, each part in a form that can hold no secret."""
    parts = []
    code = error_code(answer) if answer.status >= 400 else None
    if code is not None:
        parts.append(f"code {code}")
    with suppress(ids.MalformedId):
        parts.append(f"X-Request-ID {ids.parse(answer.headers.get('X-Request-ID', ''))}")
    return f" ({', '.join(parts)})" if parts else ""
