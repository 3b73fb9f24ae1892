"""A provider's error answer (AAP, conventions)."""

from typing import Literal

from wakegate_schema.wire.base import WireModel
from wakegate_schema.wire.fields import Code, Optional, Uuid

ErrorType = Literal[
    "invalid_request",
    "authentication",
    "authorization",
    "not_found",
    "conflict",
    "rate_limit",
    "internal",
    "dependency",
]


class ErrorDetail(WireModel):
    """What went wrong, for a program (`type`, `code`) and for a person (`message`)."""

    type: ErrorType
    code: Code
    message: str
    param: Optional[str] = None
    request_id: Uuid


class ErrorBody(WireModel):
    """The body of every answer from 400 on."""

    error: ErrorDetail
