"""The public SDK's receiver as an ASGI application, for uvicorn.

It has no client, so that it wakes nobody and reads nothing: the least that it can do for a notification. Its warning
about that is left out, which spares it a log line each.
"""

import logging
import os

from agentapprovalprotocol.receiver import Receiver

logging.getLogger("agentapprovalprotocol").setLevel(logging.ERROR)
app = Receiver(
    resumers={},
    secret=os.environ["BENCHMARK_SECRET"],
    instance_id=os.environ["BENCHMARK_INSTANCE"],
    registration_id="0" * 36,
).asgi()
