"""The receiver: verifies webhooks, records them durably, and only then acknowledges."""

from wakegate_receiver.refusals_file import read_refusals
from wakegate_receiver.service import run, serve

__all__ = ["read_refusals", "run", "serve"]
