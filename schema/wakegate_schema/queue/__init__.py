"""The queue: what tells workers that something is due. It may lose everything; the store is the truth."""

from wakegate_schema.queue.embedded import EmbeddedRinger
from wakegate_schema.queue.errors import QueueError
from wakegate_schema.queue.opening import QueueLocation, open_ringer
from wakegate_schema.queue.ringer import QueueState, Ringer

__all__ = ["EmbeddedRinger", "QueueError", "QueueLocation", "QueueState", "Ringer", "open_ringer"]
