"""The wake sender: tells a harness over HTTP what became of a call, signed (DESIGN, "Wake targets")."""

import json
import random as system_random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from wakegate_schema import timestamps
from wakegate_schema.clock import DAY, SECOND
from wakegate_schema.records import Execution, Wake
from wakegate_schema.resolution import resolution_of
from wakegate_schema.secret_files import SecretFileMissing, create_secret_file, load_signing_secrets
from wakegate_schema.signing import SigningSecret, signed_headers
from wakegate_schema.states import State
from wakegate_schema.wake_targets import WakeTarget
from wakegate_worker.answer_times import retry_after_s
from wakegate_worker.backoff import retry_at
from wakegate_worker.outbound import Limits, Unanswered, exchange

RETRY_FOR: Final = DAY
"""How long after it became due a wake is tried, in µs; then it is undelivered, visibly."""
LIMITS: Final = Limits(connect_s=5.0, total_s=10.0, max_body=0)


@dataclass(frozen=True, slots=True)
class Delivered:
    """The harness has acknowledged, or wants no wakes."""


@dataclass(frozen=True, slots=True)
class RetryAt:
    """It did not get through; try again at `due_at`, µs."""

    due_at: int
    problem: str


@dataclass(frozen=True, slots=True)
class Undelivered:
    """It will not be tried again."""

    problem: str


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

    async def deliver(self, wake: Wake, execution: Execution, now: int) -> WakeResult:
        """Try once to deliver a wake, and say what is to become of it.

        Args:
            wake: one that is owed.
            execution: the execution it is about, as it is now.
            now: wall clock, µs; the attempt is signed with it.
        """
        target = self._targets.get(wake.target)  # another worker's settings may have it, newer ones perhaps
        if target is None:
            return self._again(wake, "unknown_target", None, now)
        if target.kind == "none" or target.url is None:
            return Delivered()
        try:
            body = wake_body(wake, execution)
        except ValueError:
            return Undelivered("resolution_not_json")
        return await self._post(target.url, wake, body, now)

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
        return self._again(wake, problem, asked_s, now)

    def _again(self, wake: Wake, problem: str, asked_s: float | None, now: int) -> WakeResult:
        last = wake.created_at + RETRY_FOR
        if now >= last:
            return Undelivered(problem)
        due_at = retry_at(wake.tries, now, self._random, retry_after_s=asked_s)
        return RetryAt(min(due_at, last), problem)


def wake_body(wake: Wake, execution: Execution) -> bytes:
    """Return the JSON that tells of the wake's transition: `type`, `timestamp` of the transition, `data`.

    Raises:
        ValueError: the stored result holds what JSON cannot (a number too large for a float).
    """
    resolution = resolution_of(execution, wake.wake_id, wake.to_state)
    message = {
        "type": _TYPES.get(wake.to_state, "execution.resolved"),
        "timestamp": timestamps.render(wake.created_at),
        "data": resolution.to_json(),
    }
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii")


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
_TYPES: Final = {State.PERMITTED: "execution.permitted", State.IN_DOUBT: "execution.in_doubt"}
