"""The job: what a hint is in RQ. It carries its pool's name and no code; nobody reads more of it than its id."""

import time
from typing import Final

from redis import Redis
from rq import Queue
from rq.exceptions import DuplicateJobError
from rq.job import Job
from rq.serializers import JSONSerializer

HINT_TTL_S: Final = 5
"""Seconds after which a hint that no worker has taken may be sent again.

Also the longest for which a worker that died with a hint in its hands keeps others from being sent. A hint older than
that says nothing: every worker has swept since.
"""
KEPT: Final = 8
"""How many hints may lie in a pool's queue while no worker takes them."""
KEPT_S: Final = 60
"""Seconds after the last hint at which what lies in a pool's queue is forgotten."""
LATELY_S: Final = 0.1
"""Seconds after a hint within which it is asked first whether one lies there still: a burst makes many in vain."""
FUNCTION: Final = "wakegate.look"
"""What RQ shows as the job's function. There is none of that name: a stock RQ worker can do nothing with a hint."""

_GONE: Final = -2
"""What Redis says of the time that a key has left which does not exist."""


def hint_id(pool: str) -> str:
    """Return the name of a pool's queue, which is the id of its one hint too."""
    return f"wakegate-{pool}"


class Hints:
    """One pool's queue, as whoever rings sees it."""

    def __init__(self, connection: Redis, pool: str) -> None:
        """Take the connection and the pool's name: letters, digits, `_` and `-`."""
        self._connection = connection
        self._pool = pool
        self._queue = Queue(hint_id(pool), connection=connection, serializer=JSONSerializer)
        self._sent_at = float("-inf")

    def send(self) -> bool:
        """Put a hint into the queue; False when one that nobody has begun with is there already.

        Raises `redis.RedisError`.
        """
        now = time.monotonic()
        lately, self._sent_at = now < self._sent_at + LATELY_S, now
        if lately and self._lies_there():  # cheaper than what RQ does until it says the same
            return False
        with self._connection.pipeline(transaction=False) as pipeline:
            try:
                # The pipeline takes RQ's note of the queue; the job itself goes out at once, by RQ's script.
                self._queue.enqueue_job(self._job(), pipeline=pipeline, unique=True)
            except DuplicateJobError:
                self._lies_there()
                return False
            pipeline.ltrim(self._queue.key, -KEPT, -1)
            pipeline.expire(self._queue.key, KEPT_S)
            pipeline.execute()
        return True

    def _job(self) -> Job:
        return Job.create(
            FUNCTION,
            args=(self._pool,),
            id=hint_id(self._pool),
            connection=self._connection,
            serializer=JSONSerializer,
            ttl=HINT_TTL_S,
            result_ttl=0,
            failure_ttl=HINT_TTL_S,
            timeout=HINT_TTL_S,
            description="look at the store",
        )

    def _lies_there(self) -> bool:
        """Return whether a hint is there. None stands in the way of others for longer than its time, whoever made it.

        Its worker forgets it before it looks: while it is there, a look is to come.
        """
        key = Job.key_for(hint_id(self._pool))
        left = int(self._connection.ttl(key))
        if left != _GONE and not 0 <= left <= HINT_TTL_S:
            self._connection.expire(key, HINT_TTL_S)
        return left != _GONE
