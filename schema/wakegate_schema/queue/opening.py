"""Opening a queue where settings say it is. The driver is imported only where that is a Redis."""

from dataclasses import dataclass
from pathlib import Path

from wakegate_schema.queue.embedded import EmbeddedRinger
from wakegate_schema.queue.errors import require_extra
from wakegate_schema.queue.redis_address import EMBEDDED, parse
from wakegate_schema.queue.ringer import Ringer
from wakegate_schema.secret_files import read_secret_file

DEFAULT_POOL = "default"
"""The pool of whoever names none."""


@dataclass(frozen=True, slots=True)
class QueueLocation:
    """A queue's place. Nothing in it is secret: a password is in a file of its own."""

    url: str = EMBEDDED
    """`embedded`, or what `redis_address.parse` takes."""
    password_file: Path | None = None
    """With the password of Redis' user; None for one without."""
    pool: str = DEFAULT_POOL
    """The pool that is rung where it is not known which ones live."""

    def password(self) -> str | None:
        """Return the password in the file, None without one. Raises `SecretFileError`."""
        return None if self.password_file is None else read_secret_file(self.password_file, _PASSWORD)


def open_ringer(where: QueueLocation) -> Ringer:
    """Return the ringer of a queue. Nothing is connected before the first ring.

    Raises:
        QueueError: Redis' driver or RQ is not installed, or a file for TLS does not exist.
        SecretFileError: the password file cannot be used.
        ValueError: the URL has another form.
    """
    if where.url == EMBEDDED:
        return EmbeddedRinger()
    address = parse(where.url)
    require_extra()
    from wakegate_schema.queue.ringing import RqRinger

    return RqRinger(address, where.password(), where.pool)


_PASSWORD = "the password of the queue's Redis"  # noqa: S105 (what messages call it)
