"""Which errors say that the settings, or the files and services they name, are wrong: exit code 2."""

from wakegate_schema.errors import WakegateError
from wakegate_schema.keys import KeyFileError
from wakegate_schema.sealing import CannotUnseal, MalformedCredential
from wakegate_schema.secret_files import SecretFileError
from wakegate_schema.settings import SettingsError
from wakegate_schema.store.errors import NotADatabase, StoreMisplaced, StoreMissing, StoreOutdated
from wakegate_schema.urls import MalformedUrl


class CannotStart(WakegateError):
    """The service cannot start."""

    reason = "cannot_start"


SETTING_FAULTS = (
    CannotStart,
    CannotUnseal,
    KeyFileError,
    MalformedCredential,
    MalformedUrl,
    NotADatabase,
    SecretFileError,
    SettingsError,
    StoreMisplaced,
    StoreMissing,
    StoreOutdated,
)
