"""The wake sender: tells a harness what became of a call, over HTTP or by a program (DESIGN, "Wake targets")."""

import random as system_random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp

from wakegate_schema.clock import DAY, SECOND
from wakegate_schema.records import Execution, Wake
from wakegate_schema.secret_files import SecretFileMissing, create_secret_file, load_signing_secrets
from wakegate_schema.signing import SigningSecret, signed_headers
from wakegate_schema.wake_targets import WakeTarget
from wakegate_worker import wake_programs
from wakegate_worker.answer_times import retry_after_s
from wakegate_worker.backoff import retry_at
from wakegate_worker.outbound import Limits, Unanswered, exchange
from wakegate_worker.wake_message import GroupTold, message_of

RETRY_FOR: Final = DAY
"""How long a wake is tried, in µs, from its creation or its last replay on; then it is undelivered, visibly."""
LIMITS: Final = Limits(connect_s=5.0, total_s=10.0, max_body=0)


@dataclass(frozen=True, slots=True)
class Delivered:
    """The harness has acknowledged, or wants no wakes."""


@dataclass(frozen=True, slots=True)
class RetryAt:
    """It did not get through; try again at `due_at`, µs."""

    due_at: int
    problem: str
    detail: str | None = field(default=None, repr=False)
    """What a program said last; for the log."""


@dataclass(frozen=True, slots=True)
class Undelivered:
    """It will not be tried again."""

    problem: str
    detail: str | None = field(default=None, repr=False)


WakeResult = Delivered | RetryAt | Undelivered


class WakeSender:
    """Delivers wakes to the targets the operator named."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        targets: Mapping[str, WakeTarget],
        secrets: Sequence[SigningSecret],
        *,
        random: Callable[[], float] = system_random.random,
        limits: Limits = LIMITS,
    ) -> None:
        """Take what is needed to deliver.

        Args:
            session: from `outbound.open_session`.
            targets: by name, from the settings.
            secrets: each signs every wake, so that a harness may know either while they are exchanged; from
                `ensure_wake_secrets`.
            random: the source of jitter.
            limits: of one attempt.
        """
        self._session = session
        self._targets = targets
        self._secrets = tuple(secrets)
        self._random = random
        self._limits = limits

    def takes_long(self, wake: Wake) -> bool:
        """Whether delivering it may take longer than an exchange does, so that its lease has to be kept."""
        target = self._targets.get(wake.target)
        return target is not None and target.runs_a_program

    async def deliver(self, wake: Wake, told: Execution | GroupTold, now: int) -> WakeResult:
        """Try once to deliver a wake, and say what is to become of it.

        Args:
            wake: one that is owed.
            told: the execution it is about, as it is now; of a group's wake, everything that belongs to the group.
            now: wall clock, µs; the attempt is signed with it.
        """
        target = self._targets.get(wake.target)  # another worker's settings may have it, newer ones perhaps
        if target is None:
            return self._again(wake, "unknown_target", now)
        if target.kind == "none":
            return Delivered()
        try:
            body = message_of(wake, told)
        except ValueError:
            return Undelivered("resolution_not_json")
        if target.url is not None:
            return await self._post(target.url, wake, body, now)
        return await self._run(target, wake, body, now)

    async def _run(self, target: WakeTarget, wake: Wake, body: bytes, now: int) -> WakeResult:
        ended = await wake_programs.run(wake_programs.of_target(target), wake.wake_id, body)
        if ended.problem is None:
            return Delivered()
        return self._again(wake, ended.problem, now, detail=ended.detail)

    async def _post(self, url: str, wake: Wake, body: bytes, now: int) -> WakeResult:
        headers = {
            "Content-Type": "application/json",
            **signed_headers(self._secrets, wake.wake_id, now // SECOND, body),
        }
        asked_s: float | None = None
        try:
            answer = await exchange(
                self._session, "POST", url, headers=headers, body=body, limits=self._limits, caller="wake"
            )
        except Unanswered as error:
            problem = error.reason
        else:
            if 200 <= answer.status < 300:
                return Delivered()
            problem = "redirect" if 300 <= answer.status < 400 else f"http_{answer.status}"
            asked_s = retry_after_s(answer)
        return self._again(wake, problem, now, asked_s=asked_s)

    def _again(
        self, wake: Wake, problem: str, now: int, *, asked_s: float | None = None, detail: str | None = None
    ) -> WakeResult:
        last = (wake.owed_since or wake.created_at) + RETRY_FOR
        if now >= last:
            return Undelivered(problem, detail)
        due_at = retry_at(wake.tries, now, self._random, retry_after_s=asked_s)
        return RetryAt(min(due_at, last), problem, detail)


def ensure_wake_secrets(path: Path) -> tuple[SigningSecret, ...]:
    """Return the secrets that sign wakes, making their file (0600) with a new one if there is none.

    Raises:
        SecretFileError: others may read the file, it holds no signing secrets, or it cannot be made.
    """
    try:
        return load_signing_secrets(path, _WHAT)
    except SecretFileMissing:
        create_secret_file(path, SigningSecret.generate().reveal(), _WHAT)
        return load_signing_secrets(path, _WHAT)


_WHAT: Final = "the wake secret"
