"""The look at Redis: what it says of itself, and who waits for hints there. Nothing in it is changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wakegate_console.doctor.finding import Said, problem
from wakegate_schema.errors import WakegateError
from wakegate_schema.queue.errors import require_extra
from wakegate_schema.queue.redis_address import EMBEDDED, RedisAddress, parse
from wakegate_schema.secret_files import read_secret_file

if TYPE_CHECKING:
    from redis import Redis

ANSWER_S: Final = 3.0
"""How long one answer may take, in seconds."""


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool of workers, as Redis knows it."""

    listeners: int
    """Workers that have shown a sign of life lately."""
    hints: int
    """What lies in its queue."""


@dataclass(frozen=True, slots=True)
class QueueLook:
    """What came of looking at the queue."""

    address: RedisAddress | None = None
    """None for the embedded queue."""
    password: bool = False
    """Whether one is given."""
    trouble: Said | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    """What Redis says of itself; empty where this login may not ask."""
    pools: Mapping[str, Pool] = field(default_factory=dict)
    """The pool of the settings, and every other of which Redis holds something; empty where this login may not ask."""


def look_at_queue(url: str, password_file: Path | None, pool: str) -> QueueLook:
    """Look at the queue. It takes some seconds at most.

    Args:
        url: the setting.
        password_file: of Redis' user.
        pool: one that is looked at in any case.
    """
    if url == EMBEDDED:
        return QueueLook()
    address, password = parse(url), None
    try:
        require_extra()
        password = (
            None if password_file is None else read_secret_file(password_file, "the password of the queue's Redis")
        )
        return _look(address, password, pool)
    except WakegateError as error:
        advice = "put it right; without it hints do not go out, and workers find what is due by their sweep"
        return QueueLook(address, password is not None, problem(str(error), advice))


def _look(address: RedisAddress, password: str | None, pool: str) -> QueueLook:
    from redis.exceptions import NoPermissionError, RedisError

    from wakegate_schema.queue.redis_client import ADVICE, connect, reason_of

    client = connect(address, password, answer_s=ANSWER_S)
    try:
        client.ping()
        try:
            info: Mapping[str, Any] = client.info()
        except NoPermissionError:
            info = {}
        try:
            pools = _pools(client, pool)
        except NoPermissionError:
            pools = {}
        return QueueLook(address, password is not None, None, info, pools)
    except (RedisError, OSError) as error:
        reason = reason_of(error)
        what = f"Redis takes no hints ({reason}); nothing is lost: workers find what is due by their sweep, later"
        return QueueLook(address, password is not None, problem(what, ADVICE[reason]))
    finally:
        client.close()


def _pools(client: "Redis", own: str) -> dict[str, Pool]:
    from rq import Queue
    from rq.worker_registration import WORKERS_BY_QUEUE_KEY

    from wakegate_schema.queue.job import hint_id

    prefix = Queue.redis_queue_namespace_prefix + hint_id("")
    known: Any = client.smembers(Queue.redis_queues_keys)
    names = {key.decode(errors="replace").removeprefix(prefix) for key in known if key.startswith(prefix.encode())}
    found = {}
    for name in sorted({*names, own}):
        workers: Any = client.smembers(WORKERS_BY_QUEUE_KEY % hint_id(name))
        alive: Any = client.exists(*workers) if workers else 0
        length: Any = client.llen(prefix + name)
        if name == own or alive or length:
            found[name] = Pool(int(alive), int(length))
    return found
