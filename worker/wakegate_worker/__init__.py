"""The worker: submits saved calls, fetches and checks decisions, runs what is permitted once, and wakes the harness."""

from wakegate_worker.attempt import Attempt, ToolFailed
from wakegate_worker.registry import tool

__all__ = ["Attempt", "ToolFailed", "tool"]
