"""Every setting that names a secret file: whatever others may use, and whatever is no file, is refused by its name."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from wakegate_provider import service as provider
from wakegate_receiver.tls import server_context
from wakegate_schema.errors import WakegateError
from wakegate_schema.keys import load_key
from wakegate_schema.secret_files import load_bearer_token, load_signing_secret
from wakegate_schema.service_keys import ServiceKey
from wakegate_schema.settings import Settings, load_settings
from wakegate_schema.signing import SigningSecret
from wakegate_worker.wake_sender import ensure_wake_secrets

TOKEN = "planted-token-1d3f"
KEY = Fernet.generate_key().decode()
SECRET = SigningSecret.generate().reveal()

Reader = Callable[[Path], object]


def settings(**values: Path) -> Settings:
    return load_settings(environ={f"WAKEGATE_{name.upper()}": str(path) for name, path in values.items()})


SETTINGS: dict[str, tuple[str, Reader]] = {
    "receiver_key_file": (KEY, lambda path: ServiceKey.receiver(settings(receiver_key_file=path)).check()),
    "worker_key_file": (KEY, lambda path: ServiceKey.worker(settings(worker_key_file=path)).check()),
    "provider_key_file": (
        KEY, lambda path: load_key(settings(provider_key_file=path).provider_key_path, "provider_key_file"),
    ),
    "wake_secret_file": (
        SECRET, lambda path: ensure_wake_secrets(settings(wake_secret_file=path).wake_secret_path),
    ),
    "provider_provisioner_token_file": (
        TOKEN, lambda path: provider._provisioner_token(settings(provider_provisioner_token_file=path)),
    ),
    "tls_key_file": (
        "planted PEM", lambda path: server_context(path.with_name("cert.pem"), settings(
            tls_cert_file=path.with_name("cert.pem"), tls_key_file=path).tls_key_file),
    ),
    "--secret-file": (SECRET, lambda path: load_signing_secret(path, "the signing secret")),
    "--credential-file, --provisioner-token-file": (TOKEN, lambda path: load_bearer_token(path, "the credential")),
}  # fmt: skip


def plain(path: Path, text: str) -> Path:
    """A file that its owner alone may use."""
    path.touch(mode=0o600)
    path.write_text(text + "\n")
    path.chmod(0o600)
    return path


def of_mode(mode: int) -> Callable[[Path, str], Path]:
    def make(path: Path, text: str) -> Path:
        plain(path, text).chmod(mode)
        return path

    return make


def link_to_what_others_read(path: Path, text: str) -> Path:
    path.symlink_to(of_mode(0o644)(path.with_name("target"), text))
    return path


def directory(path: Path, _: str) -> Path:
    path.mkdir(mode=0o700)
    return path


def pipe(path: Path, _: str) -> Path:
    os.mkfifo(path, 0o600)
    return path


def device(path: Path, _: str) -> Path:
    path.symlink_to("/dev/null")
    return path


WRONG: dict[str, Callable[[Path, str], Path]] = {
    **{f"{mode:04o}": of_mode(mode) for mode in (0o644, 0o640, 0o660, 0o604, 0o602, 0o620, 0o610, 0o666)},
    "a link to a file that others may read": link_to_what_others_read,
    "a directory": directory,
    "a pipe": pipe,
    "a device": device,
}


def refusal(read: Reader, path: Path, text: str) -> str:
    """What the reader says; never what is in the file."""
    with pytest.raises(WakegateError) as refused:
        read(path)
    told = str(refused.value)
    assert str(path) in told or "FILE: must be a file, not a directory" in told
    assert text not in told + repr(refused.value)
    assert "\n" not in told
    return told


@pytest.fixture(autouse=True)
def certificate(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("a certificate is public")


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_secret_file_that_is_not_its_owners_alone_is_refused(tmp_path: Path, name: str, wrong: str) -> None:
    text, read = SETTINGS[name]
    refusal(read, WRONG[wrong](tmp_path / "secret", text), text)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_file_of_another_user_is_refused(tmp_path: Path, name: str) -> None:
    text, read = SETTINGS[name]
    with of_another_user(text) as path:
        assert "cannot be read: Permission denied" in refusal(read, path, text)


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "tls_key_file"])
def test_the_same_file_of_its_owner_alone_is_taken_also_through_a_link(tmp_path: Path, name: str) -> None:
    text, read = SETTINGS[name]
    path = plain(tmp_path / "secret", text)
    read(path)
    (tmp_path / "link").symlink_to(path)
    read(tmp_path / "link")


def test_every_setting_that_names_a_secret_file_is_in_the_table() -> None:
    secret = {name for name in Settings.model_fields if name.endswith(("_key_file", "_secret_file", "_token_file"))}
    assert secret == {name for name in SETTINGS if not name.startswith("--")}


@contextmanager
def of_another_user(text: str) -> Iterator[Path]:
    """A private file of somebody else: root's own while this process is nobody, or one of the system's."""
    if os.geteuid() != 0:
        yield Path("/etc/shadow")
        return
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "cert.pem").write_text("a certificate is public")
        (Path(folder) / "cert.pem").chmod(0o644)
        path = plain(Path(folder) / "secret", text)
        os.seteuid(65534)
        try:
            yield path
        finally:
            os.seteuid(0)
