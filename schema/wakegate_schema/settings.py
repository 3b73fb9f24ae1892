"""Settings: everything an operator can set, checked before anything starts."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from wakegate_schema import setting_types as types
from wakegate_schema.addresses import Address
from wakegate_schema.errors import WakegateError
from wakegate_schema.harness_tables import HarnessTables
from wakegate_schema.queue import QueueLocation
from wakegate_schema.setting_sources import PREFIX, ConfigFile, finding, gather, variable
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.wake_targets import WakeTables, WakeTarget, targets

DatabaseUrl = Annotated[str, BeforeValidator(types.sqlite_url)]
StoreUrl = Annotated[str, BeforeValidator(types.store_url)]
FilePath = Annotated[Path, BeforeValidator(types.file_path)]
SecretPath = Annotated[Path, BeforeValidator(types.secret_path)]
ExistingPath = Annotated[FilePath, AfterValidator(types.existing_file)]
ExistingSecretPath = Annotated[SecretPath, AfterValidator(types.existing_file)]


class SettingsError(WakegateError):
    """The settings are wrong."""

    reason = "settings"

    def __init__(self, *problems: str) -> None:
        """Take one line for each thing that is wrong, its setting first; never a secret."""
        super().__init__("\n".join(problems))
        self.problems = problems


def load_settings(
    config: Path | None = None, environ: Mapping[str, str] | None = None, *, text: bytes | None = None
) -> "Settings":
    """Return the settings of this process: the environment over the settings file over the defaults.

    Args:
        config: the settings file named on the command line; else `$WAKEGATE_CONFIG`, else `./wakegate.toml`
            if it exists. A named file must exist.
        environ: the environment; this process's own unless given.
        text: what the settings file is to hold, in place of what is in it now: to try a change before it is made.

    Raises:
        SettingsError: something is unknown or malformed; everything that is, each in one line.
    """
    gathered = gather(
        config,
        os.environ if environ is None else environ,
        names=Settings.model_fields,
        file_only=FILE_ONLY,
        secret_files=[name for name in Settings.model_fields if name in _CREDENTIALS],
        text=text,
    )
    problems = list(gathered.problems)
    try:
        settings = Settings.model_validate(gathered.values)
    except ValidationError as error:
        problems.extend(_problem(details, gathered.labels) for details in error.errors())
        raise SettingsError(*problems) from None
    if problems:
        raise SettingsError(*problems)
    settings._config_file = gathered.config
    settings._places = gathered.labels
    return settings


def _setting(default: Any, meaning: str, *, unit: str = "", words: str | None = None) -> Any:
    """Declare a setting; `words` says its default where the value alone does not."""
    return Field(default=default, description=meaning, json_schema_extra={"unit": unit, "words": words})


class Settings(BaseSettings):
    """Every setting. Made by `load_settings`; made directly, it reads neither environment nor file."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True
    )

    database: StoreUrl = _setting("sqlite:///wakegate.db", "The store that receiver and worker share.")
    database_password_file: SecretPath | None = _setting(
        None, "The password of PostgreSQL's role, where it needs one.", words="none"
    )
    queue: Annotated[str, BeforeValidator(types.queue)] = _setting(
        "embedded", "What carries hints to the workers: embedded, which is the store itself, or the URL of a Redis."
    )
    queue_password_file: SecretPath | None = _setting(
        None, "The password of Redis' user, where it needs one.", words="none"
    )
    pool: Annotated[str, BeforeValidator(types.pool)] = _setting("default", "The pool of workers this worker is in.")
    listen: Annotated[Address, BeforeValidator(types.address)] = _setting(
        Address("127.0.0.1", 8080),
        "Where the receiver takes webhooks; port 0 takes a free one.",
        unit="host:port",
    )
    events_path: Annotated[str, BeforeValidator(types.events_path)] = _setting(
        "/aap/events", "The URL path that webhooks are posted to."
    )
    control: Annotated[Path | Address, BeforeValidator(types.control_address)] | None = _setting(
        None,
        "The receiver's control socket: a Unix socket path, or host:port on loopback.",
        words="`wakegate.sock` beside the database",
    )
    metrics_listen: Annotated[Address, BeforeValidator(types.address)] | None = _setting(
        None,
        "Where /healthz, /readyz and /metrics, and nothing else, are served over TCP too.",
        unit="host:port",
        words="none: on the control socket only",
    )
    receiver_key_file: SecretPath | None = _setting(
        None,
        "The keys that seal signing secrets; only the receiver's user may read them.",
        words="`receiver.key` beside the database",
    )
    worker_key_file: SecretPath | None = _setting(
        None,
        "The keys that seal instance credentials; only the worker's user may read them.",
        words="`worker.key` beside the database",
    )
    wake_secret_file: SecretPath | None = _setting(
        None, "The `whsec_` secret that signs HTTP wakes.", words="`wake.secret` beside the database"
    )
    tools: Annotated[tuple[str, ...], BeforeValidator(types.module_names)] = _setting(
        (), "The importable modules that register tools, separated by commas.", words="none"
    )
    provider_listen: Annotated[Address, BeforeValidator(types.loopback_address)] = _setting(
        Address("127.0.0.1", 8081), "Where the small provider listens; loopback only.", unit="host:port"
    )
    provider_database: DatabaseUrl = _setting("sqlite:///provider.db", "The small provider's own store.")
    provider_key_file: SecretPath | None = _setting(
        None,
        "The keys that seal the small provider's secrets.",
        words="`provider.key` beside the provider's database",
    )
    provider_provisioner_token_file: SecretPath | None = _setting(
        None,
        "The bearer token that may create and delete instances at the small provider.",
        words="`provisioner.token` beside the provider's database",
    )
    provider_policy_file: ExistingPath | None = _setting(
        None,
        "The small provider's policy: which tools it approves, denies or asks about.",
        words="none: it asks",
    )
    log_format: Annotated[Literal["console", "json"], types.one_of("console", "json")] = _setting(
        "console", "How log lines are written: for people, or as one JSON object each."
    )
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], types.one_of("debug", "info", "warning", "error")
    ] = _setting("info", "The least level that is logged: debug, info, warning or error.")
    tls_cert_file: ExistingPath | None = _setting(
        None,
        "The certificate chain the receiver serves, in PEM; needs `tls_key_file` too.",
        words="none: plain HTTP",
    )
    tls_key_file: ExistingSecretPath | None = _setting(
        None, "The certificate's private key, in PEM; needs `tls_cert_file` too.", words="none: plain HTTP"
    )
    processes: Annotated[int, types.whole_number(1, 64)] = _setting(
        1, "How many processes the receiver runs as; they share its public socket.", unit="processes"
    )
    max_body_bytes: Annotated[int, types.whole_number(1024, 1_048_576)] = _setting(
        65_536, "The largest webhook body that is read.", unit="bytes"
    )
    max_connections: Annotated[int, types.whole_number(1, 65_536)] = _setting(
        1024, "The most connections the receiver keeps open.", unit="connections"
    )
    max_concurrency: Annotated[int, types.whole_number(1, 65_536)] = _setting(
        256, "The most requests the receiver handles at once.", unit="requests"
    )
    rate_limit: Annotated[int, types.whole_number(1, 1_000_000)] = _setting(
        5000, "The most correctly signed requests taken.", unit="requests per second"
    )
    refused_rate_limit: Annotated[int, types.whole_number(1, 1_000_000)] = _setting(
        200,
        "The most refusals of unproved requests that are answered at once; what exceeds it waits half a second.",
        unit="requests per second",
    )
    request_timeout: Annotated[float, types.seconds(0, 10, strictly_inside=True)] = _setting(
        8.0, "The longest a whole webhook request may take, its body included; less than 10.", unit="seconds"
    )
    shutdown_timeout: Annotated[float, types.seconds(0, 3600)] = _setting(
        10.0, "The longest a stop waits for requests in progress.", unit="seconds"
    )
    consumption: Annotated[Literal["auto", "always", "never"], types.one_of("auto", "always", "never")] = _setting(
        "auto",
        "Whether an approval is consumed at its provider before the call starts: auto (where the provider knows how"
        " to), always or never.",
    )
    worker_concurrency: Annotated[int, types.whole_number(1, 10_000)] = _setting(
        64, "The most executions one worker works on at once.", unit="executions"
    )
    lease_seconds: Annotated[int, types.whole_number(2, 3600)] = _setting(
        30,
        "How long a lease on an execution lasts without being renewed; best the same for all workers of a store.",
        unit="seconds",
    )
    retention_days: Annotated[int, types.whole_number(8, 36_500)] = _setting(
        30, "How long the payloads of finished executions are kept; at least 8.", unit="days"
    )
    refusals_file: FilePath | None = _setting(
        None, "The bounded ring of refused requests.", words="`refusals.jsonl` beside the database"
    )
    sweep_seconds: Annotated[float, types.seconds(0.01, 3600)] = _setting(
        1.0, "How often the worker looks for what no hint told it.", unit="seconds"
    )
    resumers: Annotated[Mapping[str, str], BeforeValidator(types.resumers)] = _setting(
        {},
        "What resumes the runs of frameworks that wait for requests nobody saved here: framework=module:function,"
        " separated by commas.",
        words="none: such notifications stay unmatched",
    )
    resumers_directory: Annotated[Path, BeforeValidator(types.directory)] | None = _setting(
        None, "Where resumers run, and where their modules are looked for first.", words="`/`, and nowhere first"
    )
    resumer_seconds: Annotated[float, types.seconds(1, 604_800)] = _setting(
        21_600.0, "How long one run of a resumer may take before it is ended.", unit="seconds"
    )
    wake: WakeTables = _setting(
        {},
        "The wake targets: a table `[wake.NAME]` each, with `kind` and what belongs to it.",
        words="only `none`",
    )
    harness: HarnessTables = _setting(
        {},
        "The harnesses that may use the control API: a table `[harness.NAME]` each, with `uid` or `token_sha256`,"
        " and `instances`.",
        words="none",
    )

    _config_file: ConfigFile | None = PrivateAttr(default=None)
    _places: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def config_file(self) -> ConfigFile | None:
        """The settings file in force, or where it would be; None for settings that no file can change."""
        return self._config_file

    @property
    def places(self) -> Mapping[str, str]:
        """Where each setting was set that has not its default: `WAKEGATE_LISTEN`, or `wakegate.toml: listen`."""
        return MappingProxyType(self._places)

    @property
    def store(self) -> StoreLocation:
        """Where the store is, and the queue beside it."""
        queue = QueueLocation(self.queue, self.queue_password_file, self.pool)
        return StoreLocation(self.database, self.database_password_file, queue)

    @property
    def home(self) -> Path:
        """The folder in which keys, socket and refusals lie unless a setting says otherwise."""
        return types.home(self.database)

    @property
    def database_path(self) -> Path:
        """The store's file. Raises ValueError for a store in PostgreSQL."""
        return types.sqlite_path(self.database)

    @property
    def provider_database_path(self) -> Path:
        """The small provider's file."""
        return types.sqlite_path(self.provider_database)

    @property
    def control_address(self) -> Path | Address:
        """The control socket: a Unix socket's path, or a loopback address."""
        return self.control or _default_control(self.database)

    @property
    def receiver_key_path(self) -> Path:
        """The receiver's key file."""
        return self.receiver_key_file or self.home / _RECEIVER_KEY

    @property
    def worker_key_path(self) -> Path:
        """The worker's key file."""
        return self.worker_key_file or self.home / _WORKER_KEY

    @property
    def wake_secret_path(self) -> Path:
        """The file of the secret that signs HTTP wakes."""
        return self.wake_secret_file or self.home / "wake.secret"

    @property
    def refusals_path(self) -> Path:
        """The file of the ring of refusals."""
        return self.refusals_file or self.home / "refusals.jsonl"

    @property
    def provider_key_path(self) -> Path:
        """The small provider's key file."""
        return self.provider_key_file or self.provider_database_path.with_name("provider.key")

    @property
    def provider_provisioner_token_path(self) -> Path:
        """The file of the small provider's provisioner token."""
        path = self.provider_provisioner_token_file
        return path or self.provider_database_path.with_name("provisioner.token")

    @property
    def wake_targets(self) -> Mapping[str, WakeTarget]:
        """Every wake target by name; `none` is always among them."""
        return MappingProxyType(targets(self.wake))

    @field_validator("control", mode="after")
    @classmethod
    def _control_fits(cls, control: Path | Address | None, info: ValidationInfo) -> Path | Address | None:
        if control is None and "database" in info.data:
            types.socket_path(_default_control(info.data["database"]))
        return control

    @field_validator("worker_key_file", mode="after")
    @classmethod
    def _keys_differ(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        if "database" not in info.data or "receiver_key_file" not in info.data:
            return path
        home = types.home(info.data["database"])
        receiver = info.data["receiver_key_file"] or home / _RECEIVER_KEY
        if _same_file(receiver, path or home / _WORKER_KEY):
            raise ValueError(f"must not be {variable('receiver_key_file')}'s file: each service has keys of its own")
        return path

    @field_validator("provider_database", mode="after")
    @classmethod
    def _databases_differ(cls, url: str, info: ValidationInfo) -> str:
        store = info.data.get("database")
        if store and not types.is_postgresql(store) and _same_file(types.sqlite_path(store), types.sqlite_path(url)):
            raise ValueError(f"must not be {variable('database')}'s file: the provider has a store of its own")
        return url

    @field_validator("tls_key_file", mode="after")
    @classmethod
    def _tls_is_whole(cls, key: Path | None, info: ValidationInfo) -> Path | None:
        if "tls_cert_file" in info.data and (key is None) != (info.data["tls_cert_file"] is None):
            missing = variable("tls_key_file" if key is None else "tls_cert_file")
            raise ValueError(f"TLS needs the certificate and its key; {missing} is not set")
        return key

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 (the signature is pydantic-settings')
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take values from `load_settings` alone, which has scanned the environment for unknown names."""
        return (init_settings,)


FILE_ONLY = frozenset({"wake", "harness"})
"""Settings that no environment variable holds."""
_RECEIVER_KEY = "receiver.key"
_WORKER_KEY = "worker.key"
_CREDENTIALS = frozenset(
    {
        "database_password_file",
        "receiver_key_file",
        "worker_key_file",
        "wake_secret_file",
        "queue_password_file",
        "provider_key_file",
        "provider_provisioner_token_file",
        "tls_cert_file",
        "tls_key_file",
    }
)


def _same_file(first: Path, second: Path) -> bool:
    return os.path.realpath(first) == os.path.realpath(second)


def _default_control(database: str) -> Path:
    return types.home(database) / "wakegate.sock"


def _problem(details: Any, labels: Mapping[str, str]) -> str:
    name, *inner = details["loc"]
    return finding({**details, "loc": inner}, labels.get(name, variable(name)), name)
