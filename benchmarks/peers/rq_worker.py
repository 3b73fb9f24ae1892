"""A stock RQ worker that logs nothing: `python -m benchmarks.peers.rq_worker Worker|SimpleWorker REDIS_URL`.

The module of the jobs is imported before, so that no child of a `Worker` has to.
"""

import sys
from typing import Final

from redis import Redis
from rq import SimpleWorker, Worker
from rq.worker import BaseWorker

from benchmarks.peers import effects, rq_jobs

QUEUE: Final = "benchmark"
KINDS: Final[dict[str, type[BaseWorker]]] = {"Worker": Worker, "SimpleWorker": SimpleWorker}


def main() -> None:
    """Work until ended."""
    effects.opened()
    kind, url = KINDS[sys.argv[1]], sys.argv[2]
    worker = kind([QUEUE], connection=Redis.from_url(url), log_job_description=False)
    worker.work(logging_level="WARNING")


if __name__ == "__main__":
    _ = rq_jobs
    main()
