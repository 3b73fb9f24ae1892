"""The reference: what has truly happened, and what the store may say of it. No part of the program is used here."""

from collections.abc import Callable
from dataclasses import dataclass, field

from model.approver import FALSIFIED, Approver, Request
from model.jobs import Job
from model.snapshot import Row, Snapshot

from wakegate_schema.clock import DAY, MINUTE

KEPT = 8 * DAY
"""How long an event's id is known at least, and how long a retired registration is answered."""
TIMEOUT = 30 * MINUTE
"""How long every request may be pending."""
Instance = tuple[str, str]


class Disagreement(AssertionError):
    """The store and the reference do not agree."""


@dataclass
class Call:
    """One call as its harness knows it, and what came of it outside the program."""

    execution_id: str
    instance: Instance
    key: str
    kind: str
    tool: str
    arguments: bytes
    runs: str
    wake: str
    saved_at: int
    abandoned: bool = False
    """Whether somebody was told that it is abandoned."""
    person: bool | None = None
    """What a person said of it when nobody knew."""
    begun: list[int] = field(default_factory=list)
    """When it began, each time."""
    effects: int = 0
    word: str | None = None
    """How the run ended: `returned`, `failed` or `unknown`."""
    told: bool = False
    """Whether whoever ran it came to its end."""
    must_run: bool = False
    """Whether nothing stands in the way any more."""

    @property
    def probed(self) -> bool:
        """Whether the world can be asked later what became of it."""
        return self.tool == "refund"


@dataclass
class Signer:
    """A registration, as the provider that signs for it knows it."""

    registration_id: str
    instance: Instance
    secret: str
    retired_at: int | None = None
    superseded_until: int | None = None


@dataclass(frozen=True)
class Event:
    """One event that is stored, by the first bytes that came."""

    instance: Instance
    request_id: str
    body: bytes
    acknowledged: bool
    keep_until: int


@dataclass
class Step:
    """What is done now: only this may change anything."""

    now: int
    job: Job | None = None
    abandons: set[str] = field(default_factory=set)
    retires: set[Instance] = field(default_factory=set)
    person: dict[str, bool] = field(default_factory=dict)
    releases: set[str] = field(default_factory=set)


@dataclass
class Reference:
    """Everything that was promised, and everything that happened."""

    approvers: dict[str, Approver]
    now: Callable[[], int]
    calls: dict[str, Call] = field(default_factory=dict)
    """By execution id."""
    signers: list[Signer] = field(default_factory=list)
    retired: dict[Instance, int] = field(default_factory=dict)
    events: dict[tuple[str, str], Event] = field(default_factory=dict)
    """By provider and event id."""
    complaints: list[str] = field(default_factory=list)
    """What happened and must not; found where nothing can be raised."""
    seen: Snapshot = field(default_factory=Snapshot)
    """The store as it was after the last step."""

    def request(self, call: Call) -> Request | None:
        """What the approver has of a call."""
        provider, instance_id = call.instance
        return self.approvers[provider].of(instance_id, call.key)

    def of_key(self, instance: Instance, key: str) -> Call | None:
        """The call that a key saved."""
        return next((call for call in self.calls.values() if (call.instance, call.key) == (instance, key)), None)

    def begins(self, execution_id: str, arguments: bytes | None) -> None:
        """A call begins, now: only if a valid approval of this very call says so, and for the first time."""
        call, now = self.calls[execution_id], self.now()
        request = self.request(call)
        if call.begun:
            self.complaints.append(f"{call.key} began twice")
        if request is None or request.status != "approved" or request.expires_at is None or call.kind == FALSIFIED:
            self.complaints.append(f"{call.key} began without an approval")
        elif now >= request.expires_at:
            self.complaints.append(f"{call.key} began after its approval had ended")
        if call.abandoned:
            self.complaints.append(f"{call.key} began although it was abandoned")
        if call.instance in self.retired:
            self.complaints.append(f"{call.key} began although its instance was retired")
        if arguments != call.arguments:
            self.complaints.append(f"{call.key} began with other arguments")
        call.begun.append(now)

    def effect(self, execution_id: str) -> None:
        """What the call does is done."""
        call = self.calls[execution_id]
        call.effects += 1
        row = self.seen.executions.get(execution_id)
        if row is not None and row["state"] == "failed" and call.person is None:
            self.complaints.append(f"{call.key} happened after it was said that it had not")

    def answer(self, signer: Signer | None, event: tuple[str, str], request_id: str, skew: int) -> int:
        """The status that a notification is to be answered with, if the store works."""
        if signer is None or abs(skew) > 300 or not self.live(signer):
            return 401
        known = self.events.get(event)
        return 409 if known is not None and known.request_id != request_id else 204

    def live(self, signer: Signer) -> bool:
        """Whether what this registration signs is taken."""
        if signer.superseded_until is not None and self.now() >= signer.superseded_until:
            return False
        return signer.retired_at is None or self.now() < signer.retired_at + KEPT

    def stored(
        self, signer: Signer, event: tuple[str, str], request_id: str, body: bytes, *, acknowledged: bool
    ) -> None:
        """An event is in the store for good: told to its sender, or only known to us."""
        known = self.events.get(event)
        if known is None:
            self.events[event] = Event(signer.instance, request_id, body, acknowledged, self.now() + KEPT)
        elif acknowledged and not known.acknowledged:
            self.events[event] = Event(known.instance, known.request_id, known.body, True, known.keep_until)


def give_up_at(row: Row) -> int:
    """When a call that got no decision is given up: eight days after its deadline."""
    deadline_at = row["deadline_at"]
    return int(row["created_at"] + TIMEOUT if deadline_at is None else deadline_at) + KEPT


def given_up_at(row: Row) -> int:
    """When it may be given up already, by somebody who does not know yet when its request was made."""
    return min(give_up_at(row), int(row["created_at"]) + TIMEOUT + KEPT)
