"""Opening the source of a worker's hints."""

from wakegate_schema.queue import QueueLocation
from wakegate_schema.queue.errors import require_extra
from wakegate_schema.queue.redis_address import EMBEDDED, parse
from wakegate_worker.hints.waiting import HintSource


def open_source(where: QueueLocation) -> HintSource | None:
    """Return where the hints of a pool's worker come from; None for the embedded queue, which is the store itself.

    Nothing is connected before it is started.

    Raises:
        QueueError: Redis' driver or RQ is not installed, or a file for TLS does not exist.
        SecretFileError: the password file cannot be used.
        ValueError: the URL has another form.
    """
    if where.url == EMBEDDED:
        return None
    address = parse(where.url)
    require_extra()
    from wakegate_worker.hints.listener import Listener

    return Listener(address, where.password(), where.pool)
