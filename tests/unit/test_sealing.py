"""Sealing: one key file does not open another's, and nothing opens for what it was not sealed for."""

import pickle
from dataclasses import FrozenInstanceError

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from support.tables import each_row
from wakegate_schema.errors import WakegateError
from wakegate_schema.sealing import (
    BearerToken,
    CannotUnseal,
    Credential,
    MalformedCredential,
    Sealer,
    seal_credential,
    seal_signing_secret,
    unseal_credential,
    unseal_signing_secret,
)
from wakegate_schema.signing import SigningSecret

PROVIDER = "https://approvals.example/aap"
OTHER_PROVIDER = "https://evil.example"
INSTANCE = "b29a43a7-1949-4b9f-9d61-b7ae66f85d31"
OTHER_INSTANCE = "7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71"
REGISTRATION = "f4b96ac4-404d-4f6a-9a03-a0565edc4922"
TOKEN = "tok.EN-value_~+/123=="
SECRET = SigningSecret.generate()


def sealer(source: str = "/keys/some.key") -> Sealer:
    return Sealer([Fernet(Fernet.generate_key())], source=source)


RECEIVERS = sealer("/keys/receiver.key")
WORKERS = sealer("/keys/worker.key")


@given(purpose=st.text(), data=st.binary())
def test_what_is_sealed_for_a_purpose_is_unsealed_for_it(purpose: str, data: bytes) -> None:
    if purpose.encode("utf-8", "ignore").decode() == purpose:
        assert WORKERS.unseal(purpose, WORKERS.seal(purpose, data)) == data


@given(sealed_for=st.text("ab\0", max_size=4), asked=st.text("ab\0", max_size=4), data=st.binary(max_size=9))
def test_no_other_purpose_unseals_it(sealed_for: str, asked: str, data: bytes) -> None:
    sealed = WORKERS.seal(sealed_for, data)
    if sealed_for != asked:
        with pytest.raises(CannotUnseal) as caught:
            WORKERS.unseal(asked, sealed)
        assert caught.value.reason == "sealed_for_another_purpose"


def test_another_key_does_not_unseal_and_the_error_names_the_file_to_check() -> None:
    sealed = WORKERS.seal("p", b"s3cr3t")
    with pytest.raises(CannotUnseal, match=r"/keys/receiver\.key") as caught:
        RECEIVERS.unseal("p", sealed)
    assert caught.value.reason == "cannot_unseal"
    assert sealed.decode() not in str(caught.value)


@each_row("sealed", [b"", b"\x00", b"gAAAAA", "\u00e9".encode(), b"x" * 10_000])
def test_what_was_never_sealed_is_refused(sealed: bytes) -> None:
    with pytest.raises(CannotUnseal):
        WORKERS.unseal("p", sealed)


def test_one_changed_byte_is_noticed() -> None:
    sealed = bytearray(WORKERS.seal("p", b"data"))
    sealed[20] ^= 1
    with pytest.raises(CannotUnseal):
        WORKERS.unseal("p", bytes(sealed))


def test_the_same_data_sealed_twice_looks_different() -> None:
    assert WORKERS.seal("p", b"data") != WORKERS.seal("p", b"data")


def test_a_signing_secret_comes_back_for_its_own_registration() -> None:
    sealed = seal_signing_secret(RECEIVERS, provider=PROVIDER, registration_id=REGISTRATION, secret=SECRET)
    opened = unseal_signing_secret(RECEIVERS, sealed, provider=PROVIDER, registration_id=REGISTRATION)
    assert opened == SECRET


@pytest.mark.parametrize(
    ("provider", "registration_id"),
    [(OTHER_PROVIDER, REGISTRATION), (PROVIDER, OTHER_INSTANCE), (PROVIDER + "/", REGISTRATION)],
)
def test_a_signing_secret_moved_to_another_row_does_not_open(provider: str, registration_id: str) -> None:
    sealed = seal_signing_secret(RECEIVERS, provider=PROVIDER, registration_id=REGISTRATION, secret=SECRET)
    with pytest.raises(CannotUnseal):
        unseal_signing_secret(RECEIVERS, sealed, provider=provider, registration_id=registration_id)


def test_the_workers_key_opens_no_signing_secret() -> None:
    sealed = seal_signing_secret(RECEIVERS, provider=PROVIDER, registration_id=REGISTRATION, secret=SECRET)
    with pytest.raises(CannotUnseal, match=r"/keys/worker\.key"):
        unseal_signing_secret(WORKERS, sealed, provider=PROVIDER, registration_id=REGISTRATION)


def test_the_receivers_key_opens_no_credential() -> None:
    sealed = seal_credential(WORKERS, provider=PROVIDER, instance_id=INSTANCE, token=TOKEN)
    with pytest.raises(CannotUnseal, match=r"/keys/receiver\.key"):
        unseal_credential(RECEIVERS, sealed, provider=PROVIDER, instance_id=INSTANCE)


def test_a_credential_comes_back_with_the_provider_it_was_sealed_with() -> None:
    sealed = seal_credential(WORKERS, provider=PROVIDER, instance_id=INSTANCE, token=BearerToken(TOKEN))
    credential = unseal_credential(WORKERS, sealed, provider=PROVIDER, instance_id=INSTANCE)
    assert credential == Credential(PROVIDER, INSTANCE, BearerToken(TOKEN))
    assert credential.token.reveal() == TOKEN


def test_a_credential_cannot_be_pointed_at_another_url() -> None:
    sealed = seal_credential(WORKERS, provider=PROVIDER, instance_id=INSTANCE, token=TOKEN)
    with pytest.raises(CannotUnseal, match="another provider") as caught:
        unseal_credential(WORKERS, sealed, provider=OTHER_PROVIDER, instance_id=INSTANCE)
    assert caught.value.reason == "credential_of_another_provider"
    assert TOKEN not in str(caught.value)


def test_a_credential_cannot_be_used_for_another_instance() -> None:
    sealed = seal_credential(WORKERS, provider=PROVIDER, instance_id=INSTANCE, token=TOKEN)
    with pytest.raises(CannotUnseal, match="another instance") as caught:
        unseal_credential(WORKERS, sealed, provider=PROVIDER, instance_id=OTHER_INSTANCE)
    assert caught.value.reason == "credential_of_another_instance"


def test_a_signing_secret_does_not_open_as_a_credential_under_one_key() -> None:
    sealed = seal_signing_secret(WORKERS, provider=PROVIDER, registration_id=INSTANCE, secret=SECRET)
    with pytest.raises(CannotUnseal):
        unseal_credential(WORKERS, sealed, provider=PROVIDER, instance_id=INSTANCE)


@each_row("data", [b"", b"[]", b"{}", b'{"provider":1,"instance_id":2,"token":3}', b"\xff"])
def test_a_credential_of_another_form_is_refused(data: bytes) -> None:
    sealed = WORKERS.seal("instance-credential", data)
    with pytest.raises(CannotUnseal) as caught:
        unseal_credential(WORKERS, sealed, provider=PROVIDER, instance_id=INSTANCE)
    assert caught.value.reason == "sealed_malformed"


@each_row(
    ("provider", "instance_id"),
    [
        (PROVIDER + "/", INSTANCE),
        ("https://APPROVALS.example/aap", INSTANCE),
        ("http://approvals.example", INSTANCE),
        ("https://u:p@approvals.example", INSTANCE),
        (PROVIDER, INSTANCE.upper()),
        (PROVIDER, "not-a-uuid"),
        (PROVIDER, INSTANCE + "\n"),
    ],
)
def test_only_canonical_identities_are_sealed(provider: str, instance_id: str) -> None:
    with pytest.raises(WakegateError):
        seal_credential(WORKERS, provider=provider, instance_id=instance_id, token=TOKEN)
    with pytest.raises(WakegateError):
        seal_signing_secret(RECEIVERS, provider=provider, registration_id=instance_id, secret=SECRET)


@each_row("text", ["", "=", "a b", "a\n", "a\r\nX-Header: y", "a=b", "é", "Bearer abc", "a,b", "a" * 4097, "\ufeffa"])
def test_what_is_no_b64token_is_no_bearer_token(text: str) -> None:
    with pytest.raises(MalformedCredential) as caught:
        BearerToken(text)
    assert len(text) < 3 or text not in str(caught.value)


def test_a_token_shows_itself_nowhere() -> None:
    credential = Credential(PROVIDER, INSTANCE, BearerToken(TOKEN))
    shown = f"{credential} {credential!r} {credential.token} {credential.token!r} {WORKERS!r}"
    assert TOKEN not in shown
    for value in (credential, credential.token, WORKERS):
        with pytest.raises(TypeError):
            pickle.dumps(value)


def test_tokens_compare_by_value() -> None:
    assert BearerToken(TOKEN) == BearerToken(TOKEN)
    assert BearerToken(TOKEN) != BearerToken("x")
    assert len({BearerToken(TOKEN), BearerToken(TOKEN)}) == 1
    assert BearerToken(TOKEN) != TOKEN


def test_a_credential_cannot_be_changed() -> None:
    credential = Credential(PROVIDER, INSTANCE, BearerToken(TOKEN))
    with pytest.raises(FrozenInstanceError):
        credential.provider = OTHER_PROVIDER  # type: ignore[misc]


def test_a_sealer_without_keys_cannot_be_made() -> None:
    with pytest.raises(ValueError):
        Sealer([])
