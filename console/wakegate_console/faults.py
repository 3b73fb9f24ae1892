"""Which errors say that the settings, or the files and services they name, are wrong: exit code 2."""

from wakegate_console.settings_file import SettingsFileRefused
from wakegate_schema.clock import ClockMalformed
from wakegate_schema.errors import WakegateError
from wakegate_schema.fault_points import FaultMalformed
from wakegate_schema.keys import KeyFileError
from wakegate_schema.queue.errors import QueueError
from wakegate_schema.sealing import CannotUnseal, MalformedCredential
from wakegate_schema.secret_files import SecretFileError
from wakegate_schema.settings import SettingsError
from wakegate_schema.store.errors import (
    NotADatabase,
    RestoreInterrupted,
    StoreDenied,
    StoreFilling,
    StoreIsBackup,
    StoreMisplaced,
    StoreMissing,
    StoreMoved,
    StoreOutdated,
)
from wakegate_schema.urls import MalformedUrl


class CannotStart(WakegateError):
    """The service cannot start."""

    reason = "cannot_start"


SETTING_FAULTS = (
    CannotStart,
    CannotUnseal,
    ClockMalformed,
    FaultMalformed,
    KeyFileError,
    MalformedCredential,
    MalformedUrl,
    NotADatabase,
    QueueError,
    RestoreInterrupted,
    SecretFileError,
    SettingsError,
    SettingsFileRefused,
    StoreDenied,
    StoreFilling,
    StoreIsBackup,
    StoreMisplaced,
    StoreMissing,
    StoreMoved,
    StoreOutdated,
)
