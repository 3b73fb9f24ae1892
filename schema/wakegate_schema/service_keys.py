"""Service keys: which file holds a service's keys, and when a first one may be made (DESIGN, "Who holds what")."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from wakegate_schema.keys import FileSealer, ensure_key, load_key
from wakegate_schema.loggers import logger
from wakegate_schema.records import Instance, Registration
from wakegate_schema.settings import Settings

_log = logger("wakegate_schema")


@dataclass(frozen=True, slots=True)
class Sealed:
    """What the store holds sealed under one key file."""

    live: tuple[bytes, ...] = field(repr=False)
    """What is in use: it must be possible to open it."""
    retired: tuple[bytes, ...] = field(default=(), repr=False)
    """What only tells late messages from junk."""

    @classmethod
    def secrets(cls, registrations: Iterable[Registration]) -> Self:
        """Return the signing secrets of these registrations, which the receiver's key seals."""
        known = [each for each in registrations if each.sealed_secret]
        return cls(
            tuple(each.sealed_secret for each in known if each.state != "retired"),
            tuple(each.sealed_secret for each in known if each.state == "retired"),
        )

    @classmethod
    def credentials(cls, instances: Iterable[Instance]) -> Self:
        """Return the credentials of these instances, which the worker's key seals."""
        return cls(tuple(each.sealed_credential for each in instances if each.sealed_credential))


@dataclass(frozen=True, slots=True)
class ServiceKey:
    """The key file of one service."""

    path: Path
    setting: str
    """The setting that may name it."""
    named: bool
    """Whether it does; such a file must be there."""

    @classmethod
    def receiver(cls, settings: Settings) -> Self:
        """Return the receiver's."""
        return cls(settings.receiver_key_path, "receiver_key_file", settings.receiver_key_file is not None)

    @classmethod
    def worker(cls, settings: Settings) -> Self:
        """Return the worker's."""
        return cls(settings.worker_key_path, "worker_key_file", settings.worker_key_file is not None)

    def check(self) -> None:
        """Refuse a file that cannot be used, before anything else is opened.

        Raises:
            KeyFileError, SecretFileError: as `load_key`; a file that no setting names may be missing.
        """
        if self.named or self.path.exists():
            load_key(self.path, self.setting)

    def open(self, sealed: Sealed) -> FileSealer:
        """Return the keys, tried on what they must open; the first one is made where nothing in use is sealed.

        Raises:
            KeyFileError, SecretFileError: as `load_key`; a lost key is not replaced while something needs it.
            CannotUnseal: the keys open nothing of what is in use, so they are another's.
        """
        made = not self.named and not sealed.live and not self.path.exists()
        sealer = (ensure_key if made else load_key)(self.path, self.setting)
        sealer.require_one(sealed.live)
        if sealed.retired and not any(map(sealer.opens, sealed.retired)):
            _log.warning(
                "the key opens no secret of the retired registrations; what they still sign is refused as unknown",
                action="open_key",
                file=str(self.path),
                made=made,
            )
        return sealer
