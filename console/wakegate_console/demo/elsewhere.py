"""Elsewhere: a database and a Redis that the demo was given. It makes what it needs there, and removes it again.

It never works in a store that is there: in PostgreSQL it has a schema of its own, and in Redis a pool of its own.
"""

import asyncio
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from wakegate_console.demo.stage import DemoFailed
from wakegate_schema.queue.errors import require_extra as require_redis
from wakegate_schema.queue.redis_address import EMBEDDED, parse
from wakegate_schema.secret_files import read_secret_file
from wakegate_schema.store import migrate_store
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.opening import require_extra as require_postgresql
from wakegate_schema.store.queries import load

if TYPE_CHECKING:
    from redis import Redis

    from wakegate_schema.store.postgresql.connection import PgConnection


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What the demo was given; nothing of it where it is all None."""

    database: str | None = None
    """PostgreSQL's URL."""
    database_password_file: Path | None = None
    queue: str | None = None
    """A Redis' URL, or `embedded`."""
    queue_password_file: Path | None = None
    name: str = field(default_factory=lambda: f"wakegate_demo_{secrets.token_hex(4)}")
    """Of the schema and of the pool; no other demo has it."""

    def settings(self) -> dict[str, str]:
        """Return the settings that lead there."""
        values: dict[str, str | None] = {}
        if self.database is not None:
            values |= {
                "database": in_schema(self.database, self.name),
                "database_password_file": _text(self.database_password_file),
            }
        if self.queue is not None:
            values |= {"queue": self.queue, "queue_password_file": _text(self.queue_password_file), "pool": self.name}
        return {name: value for name, value in values.items() if value is not None}

    def told(self) -> str:
        """Return what stays there when the demo is kept, and how it is removed; empty for nothing."""
        if self.database is None:
            return ""
        return f"The store is in the schema {self.name} of the database; to remove it: DROP SCHEMA {self.name} CASCADE"


def in_schema(url: str, schema: str) -> str:
    """Return a database's URL with which everything happens in one schema. Raises ValueError if it has options."""
    if "options" in parse_qs(urlsplit(url).query, keep_blank_values=True):
        raise ValueError("must have no ?options=…: the demo sets the schema by them")
    return f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{schema}"


@contextmanager
def prepared(where: Elsewhere, *, keep: bool) -> Iterator[Mapping[str, str]]:
    """Make what the demo needs elsewhere, give the settings that lead there, and remove it afterwards.

    Args:
        where: what the demo was given.
        keep: whether to leave it.

    Raises:
        WakegateError: it cannot be made, or not removed.
    """
    with _schema(where, keep=keep), _pool(where):
        yield where.settings()


@contextmanager
def _schema(where: Elsewhere, *, keep: bool) -> Iterator[None]:
    if where.database is None:
        yield
        return
    require_postgresql()
    given = StoreLocation(where.database, where.database_password_file)
    own = StoreLocation(in_schema(where.database, where.name), where.database_password_file)
    _run(given, "demo_make", where.name)
    try:
        _check(own, where.name)
        asyncio.run(migrate_store(own))
        yield
    except BaseException:
        _run(given, "demo_remove", where.name)
        raise
    if not keep:
        _run(given, "demo_remove", where.name)


def _check(location: StoreLocation, schema: str) -> None:
    """See that connections really work in the schema: a pooler may leave the options out, and lead to another store."""
    with _connected(location) as connection:
        row = connection.execute(_blocks()["demo_where"].encode()).fetchone()
    if row is None or row["name"] != schema:
        raise DemoFailed(
            "the database does not work in the schema that the demo names: a pooler before it leaves out `options`."
            " Name the server itself"
        )


def _run(location: StoreLocation, block: str, schema: str) -> None:
    from psycopg import sql

    with _connected(location) as connection:
        connection.execute(sql.SQL(_blocks()[block]).format(schema=sql.Identifier(schema)))


@contextmanager
def _connected(location: StoreLocation) -> "Iterator[PgConnection]":
    """Give a connection. Raises `StoreError` for whatever goes wrong with it."""
    import psycopg

    from wakegate_schema.store.postgresql.connection import connect, translate

    try:
        with connect(location) as connection:
            yield connection
    except (psycopg.Error, OSError) as error:
        raise translate(error, location) from error


def _blocks() -> Mapping[str, str]:
    return load("wakegate_schema", "sql/postgresql/demo")


@contextmanager
def _pool(where: Elsewhere) -> Iterator[None]:
    """Forget the demo's pool in Redis afterwards, as far as that works: it forgets what is left by itself."""
    if where.queue is None or where.queue == EMBEDDED:
        yield
        return
    require_redis()
    _greet(where.queue, where.queue_password_file)
    try:
        yield
    finally:
        _forget(where.queue, where.queue_password_file, where.name)


def _greet(url: str, password_file: Path | None) -> None:
    """See that Redis answers: the loop would come to its end without, and show nothing of it."""
    from redis.exceptions import RedisError

    from wakegate_schema.queue.redis_client import ADVICE, reason_of

    client = _client(url, password_file)
    try:
        client.ping()
    except (RedisError, OSError) as error:
        reason = reason_of(error)
        raise DemoFailed(f"Redis cannot be used ({reason}): {ADVICE[reason]}") from error
    finally:
        client.close()


def _client(url: str, password_file: Path | None) -> "Redis":
    from wakegate_schema.queue.redis_client import connect

    password = None if password_file is None else read_secret_file(password_file, "the password of the queue's Redis")
    return connect(parse(url), password, answer_s=1.0)


def _forget(url: str, password_file: Path | None, pool: str) -> None:
    from redis.exceptions import RedisError
    from rq import Queue
    from rq.job import Job
    from rq.worker_registration import REDIS_WORKER_KEYS, WORKERS_BY_QUEUE_KEY

    from wakegate_schema.queue.job import hint_id

    queue, workers = Queue.redis_queue_namespace_prefix + hint_id(pool), WORKERS_BY_QUEUE_KEY % hint_id(pool)
    client = _client(url, password_file)
    with suppress(RedisError, OSError):
        known: Any = client.smembers(workers)
        if known:
            client.srem(REDIS_WORKER_KEYS, *known)
            client.delete(*known)
        client.srem(Queue.redis_queues_keys, queue)
        client.delete(queue, workers, Job.key_for(hint_id(pool)))
    client.close()


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())
