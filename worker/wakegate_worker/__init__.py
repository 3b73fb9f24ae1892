"""The worker: submits saved calls, fetches and checks decisions, runs what is permitted once, and wakes the harness."""

from wakegate_schema.settings import Settings, SettingsError, load_settings
from wakegate_worker.attempt import Attempt, ToolFailed
from wakegate_worker.registry import tool
from wakegate_worker.service import running

__all__ = ["Attempt", "Settings", "SettingsError", "ToolFailed", "load_settings", "running", "tool"]
