"""Key files and secret files: what is accepted, what is refused by name, and that nothing shows a secret."""

import base64
import os
import stat
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from wakegate_schema import keys, logs
from wakegate_schema.errors import WakegateError
from wakegate_schema.keys import KeyFileError, KeyFileMissing, ensure_key, load_key
from wakegate_schema.sealing import CannotUnseal, Sealer
from wakegate_schema.secret_files import (
    SecretFileError,
    SecretFileMissing,
    check_private_file,
    create_secret_file,
    load_bearer_token,
    load_signing_secret,
    read_secret_file,
)
from wakegate_schema.signing import SigningSecret

PUBLISHED_SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def written(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


def replaced(path: Path, data: bytes) -> None:
    """Put another file in the place of one, as a rotation does."""
    written(path.with_name("draft"), data).replace(path)


def key() -> bytes:
    return Fernet.generate_key()


def refused(read: Callable[[], object], *, path: Path, secret: str = "s3cr3t") -> str:
    """Return the error's line, having checked that it names the file and does not show the secret."""
    with pytest.raises(WakegateError) as caught:
        read()
    text = str(caught.value)
    assert str(path) in text
    assert secret not in text + repr(caught.value)
    assert "\n" not in text
    return text


def test_one_key_seals_and_unseals(tmp_path: Path) -> None:
    sealer = load_key(written(tmp_path / "k", key() + b"\n"))
    assert sealer.unseal("p", sealer.seal("p", b"data")) == b"data"


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n", b"\r"])
def test_a_key_file_may_end_with_one_line_ending_or_none(tmp_path: Path, ending: bytes) -> None:
    load_key(written(tmp_path / "k", key() + ending))


def test_after_a_rotation_the_new_key_seals_and_the_old_one_still_unseals(tmp_path: Path) -> None:
    old, new = key(), key()
    before = load_key(written(tmp_path / "k", old + b"\n"))
    sealed_before = before.seal("p", b"data")
    rotated = load_key(written(tmp_path / "rotated", new + b"\n" + old + b"\n"))
    assert rotated.unseal("p", sealed_before) == b"data"
    with pytest.raises(CannotUnseal):
        before.unseal("p", rotated.seal("p", b"data"))


def test_a_file_that_has_changed_is_read_again_when_a_value_does_not_open(tmp_path: Path) -> None:
    path, old, new = tmp_path / "k", key(), key()
    service = load_key(written(path, old))
    before = service.seal("p", b"data")
    replaced(path, new)
    assert service.unseal("p", load_key(path).seal("p", b"data")) == b"data"
    assert service.unseal("p", before) == b"data", "what was read before the change still opens"
    assert service.is_newest(service.seal("p", b"data"))
    assert load_key(path).opens(service.seal("p", b"data"))


def test_a_file_that_has_not_changed_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = load_key(written(tmp_path / "k", key()))
    readings: list[Path] = []
    monkeypatch.setattr(keys, "read_keys", lambda path, setting: readings.append(path))
    for _ in range(3):
        with pytest.raises(CannotUnseal):
            service.unseal("p", b"junk")
    assert readings == []


@pytest.mark.parametrize("content", [None, b"", b"s3cr3t\n"])
def test_a_changed_file_that_cannot_be_used_leaves_the_keys_as_they_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    path = tmp_path / "k"
    service = load_key(written(path, key()))
    sealed = service.seal("p", b"data")
    path.unlink()
    if content is not None:
        written(path, content)
    logs.configure("json")
    for _ in range(2):
        with pytest.raises(CannotUnseal):
            service.unseal("p", b"junk")
    assert service.unseal("p", sealed) == b"data"
    told = capsys.readouterr()
    assert (told.out + told.err).count("the keys read before stay in use") == (content is not None)
    assert "s3cr3t" not in told.out + told.err


def test_resealing_keeps_what_a_value_was_sealed_for(tmp_path: Path) -> None:
    path, old = tmp_path / "k", key()
    sealed = load_key(written(path, old)).seal("p", b"data")
    rotated = load_key(written(path, key() + b"\n" + old))
    again = rotated.reseal(sealed)
    assert (rotated.is_newest(sealed), rotated.is_newest(again)) == (False, True)
    assert rotated.unseal("p", again) == b"data"
    with pytest.raises(CannotUnseal, match="something else"):
        rotated.unseal("q", again)
    with pytest.raises(CannotUnseal):
        rotated.reseal(b"junk")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o620, 0o602, 0o610, 0o601])
def test_a_key_that_others_may_touch_is_refused(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path / "k", key(), mode)
    assert "chmod 600" in refused(lambda: load_key(path), path=path)
    assert "chmod 600" in refused(lambda: ensure_key(path), path=path)


def test_a_file_of_another_user_is_not_advised_to_be_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "k", key(), 0o644)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    text = refused(lambda: load_key(path), path=path)
    assert "chmod" not in text
    assert f"another user (uid {path.stat().st_uid}); give a copy that is yours alone" in text


@pytest.mark.parametrize("data", [b"not a key", b"", b"\n\n"])
def test_an_error_names_the_setting_of_the_file(tmp_path: Path, data: bytes) -> None:
    path = written(tmp_path / "k", data)
    assert "WAKEGATE_WORKER_KEY_FILE" in refused(lambda: ensure_key(path, "worker_key_file"), path=path)


def test_a_secret_that_a_library_reads_is_checked_in_the_same_words(tmp_path: Path) -> None:
    path = written(tmp_path / "k", b"x" * 10_000)
    check_private_file(path, "the key")
    path.chmod(0o640)
    text = refused(lambda: check_private_file(path, "the key"), path=path)
    assert text == refused(lambda: read_secret_file(path, "the key"), path=path)


def test_a_private_link_to_a_readable_file_is_refused(tmp_path: Path) -> None:
    target = written(tmp_path / "open", key(), 0o644)
    link = tmp_path / "k"
    link.symlink_to(target)
    assert "mode 0644" in refused(lambda: load_key(link), path=link)


def test_a_link_to_a_private_file_is_followed(tmp_path: Path) -> None:
    target = written(tmp_path / "private", key())
    link = tmp_path / "k"
    link.symlink_to(target)
    load_key(link)


GOOD = base64.urlsafe_b64encode(bytes(range(200, 232)))


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", 1),
        (b"\n", 1),
        (b"s3cr3t\n", 1),
        (GOOD[:-1], 1),
        (GOOD + b"=", 1),
        (GOOD + b" \n", 1),
        (b" " + GOOD, 1),
        (b"\xef\xbb\xbf" + GOOD, 1),
        (GOOD + b"\n\n", 2),
        (GOOD + b"\n# old\n", 2),
        (GOOD + b"\n" + b"+" * 43 + b"=", 2),
        (b"A" * 42 + b"B=", 1),
    ],
)
def test_a_malformed_key_is_refused_by_file_and_line(tmp_path: Path, data: bytes, line: int) -> None:
    path = written(tmp_path / "k", data)
    text = refused(lambda: load_key(path), path=path, secret=GOOD.decode())
    assert f"line {line}: " in text
    assert "s3cr3t" not in text


def test_the_same_key_twice_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "k", GOOD + b"\n" + key() + b"\n" + GOOD + b"\n")
    text = refused(lambda: load_key(path), path=path, secret=GOOD.decode())
    assert "line 3: the same key as line 1" in text


def test_a_key_file_over_4_kib_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "k", b"".join(key() + b"\n" for _ in range(92)))
    assert "4096 bytes" in refused(lambda: load_key(path), path=path)


def test_a_missing_key_file_says_which_settings_name_it(tmp_path: Path) -> None:
    with pytest.raises(KeyFileMissing, match="WAKEGATE_RECEIVER_KEY_FILE"):
        load_key(tmp_path / "k")


def test_a_directory_or_a_pipe_is_no_key_file(tmp_path: Path) -> None:
    assert "regular file" in refused(lambda: load_key(tmp_path), path=tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    assert "regular file" in refused(lambda: load_key(pipe), path=pipe)


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.symlink_to(path)
    assert "cannot be read" in refused(lambda: load_key(path), path=path)


def test_ensuring_makes_a_private_file_once(tmp_path: Path) -> None:
    path = tmp_path / "k"
    old = os.umask(0)
    try:
        first = ensure_key(path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = path.read_bytes()
    assert load_key(path).unseal("p", first.seal("p", b"x")) == b"x"
    ensure_key(path)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_narrow_umask_does_not_lock_the_owner_out(tmp_path: Path) -> None:
    old = os.umask(0o777)
    try:
        ensure_key(tmp_path / "k")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600


def test_ensuring_in_a_directory_that_does_not_exist_says_so(tmp_path: Path) -> None:
    path = tmp_path / "none" / "k"
    assert f"the directory {path.parent} does not exist" in refused(lambda: ensure_key(path), path=path)


def test_ensuring_does_not_replace_a_malformed_file(tmp_path: Path) -> None:
    path = written(tmp_path / "k", b"")
    with pytest.raises(KeyFileError):
        ensure_key(path)
    assert path.read_bytes() == b""


def _ensure_and_seal(path: Path) -> bytes:
    return ensure_key(path).seal("race", b"x")


def test_processes_that_ensure_a_key_at_once_end_with_the_same_key(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("forkserver")) as pool:
        for turn in range(5):
            path = tmp_path / f"k{turn}"
            sealed = list(pool.map(_ensure_and_seal, [path] * 8))
            sealer: Sealer = load_key(path)
            assert [sealer.unseal("race", each) for each in sealed] == [b"x"] * 8


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_one_trailing_line_ending_is_stripped(tmp_path: Path, ending: bytes) -> None:
    assert read_secret_file(written(tmp_path / "s", b"s3cr3t" + ending), "the token") == "s3cr3t"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\r\n",
        b"s3cr3t\n\n",
        b"s3cr3t\r\n\r\n",
        b"s3cr3t\n\r\n",
        b"s3cr3t\r",
        b"\ns3cr3t",
        b"s3cr3t \n",
        b" s3cr3t",
        b"\ts3cr3t",
        b"s3cr3t\nmore",
        b"\xef\xbb\xbfs3cr3t",
        b"s3cr3t\x00",
        b"s3cr3t\x7f",
        b"s3cr3t\xc3\xa9",
        "s3cr3t\u00a0".encode(),
        "s3cr3t".encode("utf-16"),
        b"s3cr3t" * 700,
    ],
)
def test_anything_odd_around_a_secret_is_refused_by_file_and_thing(tmp_path: Path, data: bytes) -> None:
    path = written(tmp_path / "s", data)
    assert "the token" in refused(lambda: read_secret_file(path, "the token"), path=path)


def test_a_missing_secret_file_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(SecretFileMissing):
        read_secret_file(tmp_path / "s", "the token")


def test_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "s", b"x") / "deeper"
    with pytest.raises(SecretFileError):
        read_secret_file(path, "the token")


def test_systemds_credentials_may_have_wider_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "wake_secret", b"s3cr3t\n", 0o440)
    with pytest.raises(SecretFileError):
        read_secret_file(path, "the wake secret")
    assert read_secret_file(path, "the wake secret", credentials_directory=tmp_path) == "s3cr3t"
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert read_secret_file(path, "the wake secret") == "s3cr3t"


def test_a_link_out_of_the_credentials_directory_is_not_trusted(tmp_path: Path) -> None:
    outside = written(tmp_path / "outside", b"s3cr3t", 0o644)
    directory = tmp_path / "credentials"
    directory.mkdir()
    link = directory / "wake_secret"
    link.symlink_to(outside)
    refused(lambda: read_secret_file(link, "it", credentials_directory=directory), path=link)


@pytest.mark.parametrize("directory", ["", "."])
def test_a_credentials_directory_that_is_not_absolute_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", directory)
    path = written(tmp_path / "s", b"s3cr3t", 0o644)
    refused(lambda: read_secret_file(path, "it"), path=path)


def test_a_signing_secret_file_is_read_with_either_line_ending(tmp_path: Path) -> None:
    secret = SigningSecret.generate()
    for ending in ("", "\n", "\r\n"):
        path = written(tmp_path / "s", (secret.reveal() + ending).encode())
        assert load_signing_secret(path, "the signing secret") == secret


WHOLE = SigningSecret(bytes(range(200, 232))).reveal()


@pytest.mark.parametrize(
    "text",
    [
        "whsec_",
        "whsec_!!!!",
        "whsec_AA==",
        WHOLE.rstrip("="),
        "whsec_" + "-_" * 21 + "A=",
        "whsec_" + "A" * 42 + "B=",
        " " + WHOLE,
        "v1," + WHOLE,
        WHOLE.removeprefix("whsec_"),
        "whsec_" + "A" * 40 + "AA==",
        "whsec_" + "A" * 44,
        "WHSEC_" + WHOLE.removeprefix("whsec_"),
        PUBLISHED_SECRET,
    ],
)
def test_a_malformed_or_published_signing_secret_is_refused_by_file(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "s", text.encode())
    read = lambda: load_signing_secret(path, "instance b29a43a7's signing secret")  # noqa: E731
    shown = refused(read, path=path, secret=text if len(text) > 8 else "s3cr3t")
    assert "instance b29a43a7" in shown


def test_a_bearer_token_file_is_read_and_a_bad_one_refused(tmp_path: Path) -> None:
    assert load_bearer_token(written(tmp_path / "t", b"abc.DEF-1==\n"), "the token").reveal() == "abc.DEF-1=="
    path = written(tmp_path / "t", b"s3cr3t,s3cr3t")
    refused(lambda: load_bearer_token(path, "the token"), path=path)


def test_a_secret_file_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    assert create_secret_file(path, "first", "it")
    assert not create_secret_file(path, "second", "it")
    assert read_secret_file(path, "it") == "first"
    assert list(tmp_path.iterdir()) == [path]
