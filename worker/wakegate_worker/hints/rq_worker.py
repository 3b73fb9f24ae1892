"""The RQ worker: known to RQ as one, takes its pool's hints, and does nothing else that Redis asks of it.

Whoever can write to Redis can make a worker look at its store, and no more. So a job is never read: neither its
function nor its arguments, callbacks, repeats, retries, dependents or serializer. What RQ would do at others' word is
left out: commands over pub/sub (they end the process), `rq suspend`, and the maintenance of registries, which imports
and calls the callbacks that it finds there.
"""

import os
import socket
from typing import Any, Final

from redis import Redis
from rq import Queue, SimpleWorker, worker_registration
from rq.exceptions import DequeueTimeout
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.worker import WorkerStatus

from wakegate_schema.queue.job import hint_id

WORKER_TTL_S: Final = 30
"""Seconds after which RQ takes a worker that shows no sign of life for gone, and a minute."""
ANNOUNCE_S: Final = 10.0
"""Seconds between two signs of life."""


class PoolWorker(SimpleWorker):
    """Takes the hints of one pool, in the thread that calls it."""

    def __init__(self, connection: Redis, pool: str, name: str) -> None:
        """Take the connection, the pool's name, and the worker's own."""
        self._id = hint_id(pool)
        queue = Queue(self._id, connection=connection, serializer=JSONSerializer)
        super().__init__(
            [queue],
            name=name,
            connection=connection,
            serializer=JSONSerializer,
            worker_ttl=WORKER_TTL_S,
            prepare_for_work=False,  # it would ask Redis for this worker's address
        )
        self.hostname, self.pid, self.ip_address = socket.gethostname(), os.getpid(), "unknown"
        self._queue = queue

    def announce(self) -> None:
        """Let RQ know of this worker, also after Redis lost everything. Raises `redis.RedisError`."""
        with self.connection.pipeline(transaction=False) as pipeline:
            self.heartbeat(pipeline=pipeline)
            self.birth_date = self.birth_date or self.last_heartbeat
            pipeline.hset(self.key, mapping=self.serialize() | {"state": WorkerStatus.IDLE.value})
            worker_registration.register(self, pipeline)
            pipeline.execute()

    def take(self, seconds: int) -> bool | None:
        """Wait for what comes into the pool's queue.

        A hint is taken back before this returns, and before anybody looks: whatever becomes due from now on makes a
        hint of its own.

        Args:
            seconds: the longest to wait.

        Returns:
            True for a hint, False for something that is none, which is dropped; None when nothing came.

        Raises:
            redis.RedisError: Redis cannot be asked. A hint may be lost with it.
        """
        try:
            _, taken = Queue.lpop([self._queue.key], seconds, connection=self.connection)
        except DequeueTimeout:
            return None
        if taken != self._id.encode():
            return False
        with self.connection.pipeline() as pipeline:  # at once: a hint sent in between is not taken for a repeat
            pipeline.delete(Job.key_for(self._id))
            pipeline.lrem(self._queue.key, 0, self._id)
            pipeline.execute()
        return True

    def work(self, *_: Any, **__: Any) -> bool:
        """Refuse to run RQ's own loop."""
        raise NotImplementedError("a PoolWorker takes hints and runs no jobs; use `take`")
