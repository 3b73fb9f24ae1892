"""The ledger: a file outside wakegate in which the demo's tools leave their effects, one a line."""

import json
import os
from collections import Counter
from pathlib import Path

from wakegate_schema.errors import WakegateError

VARIABLE = "REFUND_LEDGER"
"""The environment variable that names the file."""


class LedgerDamaged(WakegateError):
    """The ledger cannot be counted."""

    reason = "ledger_damaged"


def record_refund(payment_id: str, amount: int, currency: str) -> None:
    """Do the effect: add a refund to the ledger, durable when this returns.

    Args:
        payment_id: which payment is paid back.
        amount: in the currency's smallest unit.
        currency: ISO 4217.
    """
    line = json.dumps({"payment_id": payment_id, "amount": amount, "currency": currency})
    descriptor = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode() + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def count_refunds(path: Path) -> Counter[str]:
    """Return how often each payment was paid back; nothing was when there is no file.

    Raises:
        LedgerDamaged: a line is not a whole refund.
    """
    if not path.exists():
        return Counter()
    try:
        return Counter(json.loads(line)["payment_id"] for line in path.read_text().splitlines())
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerDamaged(f"{path}: a line is not a whole refund") from error
