"""The demo's cases: refund calls, each with the end it must come to."""

from dataclasses import dataclass
from typing import Any

from wakegate_schema.records import Runs
from wakegate_schema.states import State

DENIAL = "This payment was paid back last week."


@dataclass(frozen=True, slots=True)
class Case:
    """One refund call, and what must become of it."""

    name: str
    """The payment it pays back; also the end of its idempotency key."""
    tells: str
    """What it shows, in a few words."""
    tool: str
    amount: int
    """In cents."""
    ends: State
    timeout: str = "10m"
    runs: Runs = "worker"

    @property
    def arguments(self) -> dict[str, Any]:
        """The call's arguments."""
        return {"payment_id": self.name, "amount": self.amount, "currency": "EUR"}

    @property
    def times(self) -> int:
        """How often it must have been started, and its effect have happened: 0 or 1."""
        return 1 if self.ends in (State.SUCCEEDED, State.IN_DOUBT) else 0


POLICY = Case("pay-1", "policy approves", "issue_small_refund", 450, State.SUCCEEDED)
REVIEW = Case("pay-2", "person approves", "issue_refund", 4900, State.SUCCEEDED)
DENIED = Case("pay-3", "denied, with note", "issue_refund", 12000, State.DENIED)
CANCELLED = Case("pay-4", "cancelled", "issue_refund", 700, State.CANCELLED)
EXPIRED = Case("pay-5", "left undecided", "issue_refund", 9900, State.EXPIRED, timeout="3s")
LAPSED = Case("pay-6", "approved, lapses", "issue_refund", 3100, State.LAPSED)
SURVIVOR = Case("pay-7", "worker was down", "issue_refund", 5200, State.SUCCEEDED)
CLAIMED = Case("pay-8", "harness runs it", "issue_refund", 2600, State.SUCCEEDED, runs="harness")
KILLED = Case("pay-9", "killed mid-run", "issue_slow_refund", 8300, State.IN_DOUBT)
"""The worker is killed when this refund is made and its tool has not returned: it happened, and nobody can know."""

CASES = (POLICY, REVIEW, DENIED, CANCELLED, EXPIRED, LAPSED, SURVIVOR, CLAIMED, KILLED)

DUPLICATED = POLICY
"""The case whose notification the provider delivers twice."""
