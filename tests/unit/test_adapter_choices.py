"""Where an adapter goes, which instance a call means, and what a held callable must take."""

import socket
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.desk import new_id
from support.tables import each_row
from wakegate_adapter import CallRefused, InstanceUnclear, NotConfigured
from wakegate_adapter.callee import check_failures, check_fits
from wakegate_adapter.location import TOKEN_FILE, Control, find
from wakegate_schema.addresses import Address
from wakegate_schema.calls.choosing import choose
from wakegate_schema.queue import QueueLocation
from wakegate_schema.records import Instance
from wakegate_schema.secret_files import SecretFileError
from wakegate_schema.store.location import StoreLocation


def an_instance(name: str, state: Any = "active", provider: str = "https://one.example") -> Instance:
    """An instance as the store returns it."""
    return Instance(provider, new_id(), name, state, None, "webhook", b"sealed", None, 1)


def test_a_path_and_a_url_name_the_same_store(tmp_path: Path) -> None:
    path = tmp_path / "wakegate.db"
    assert find(path, {}) == find(str(path), {}) == find(f"sqlite:///{path}", {}) == StoreLocation(f"sqlite:///{path}")


def test_a_relative_path_is_fixed_where_the_process_stands_now() -> None:
    assert find("some.db", {}) == StoreLocation(f"sqlite:///{Path.cwd()}/some.db")
    assert find("some.sock", {}) == Control(Path.cwd() / "some.sock", None)


def test_the_argument_comes_before_the_environment() -> None:
    environment = {"WAKEGATE_CONTROL": "x.sock", "WAKEGATE_DATABASE": "sqlite:////b.db"}
    assert find("/a.db", environment) == StoreLocation("sqlite:////a.db")
    assert find("/a.sock", environment) == Control(Path("/a.sock"), None)


def test_the_environment_names_the_control_socket_before_the_store() -> None:
    assert find(None, {"WAKEGATE_DATABASE": "sqlite:////b.db"}) == StoreLocation("sqlite:////b.db")
    environment = {"WAKEGATE_CONTROL": "/run/wakegate/control", "WAKEGATE_DATABASE": "sqlite:////b.db"}
    assert find(None, environment) == Control(Path("/run/wakegate/control"), None)


def test_whoever_opens_the_store_rings_the_queue_that_the_environment_names() -> None:
    environment = {"WAKEGATE_QUEUE": "redis://r/1", "WAKEGATE_QUEUE_PASSWORD_FILE": "/p", "WAKEGATE_POOL": "gpu"}
    assert find("b.db", environment) == StoreLocation(
        f"sqlite:///{Path('b.db').absolute()}", queue=QueueLocation("redis://r/1", Path("/p"), "gpu")
    )
    for name, value in (("QUEUE", "redis://:s3cret@r"), ("POOL", "no pool"), ("QUEUE_PASSWORD_FILE", "s3cret" * 8)):
        with pytest.raises(NotConfigured, match=f"^WAKEGATE_{name}: ") as refused:
            find("b.db", {f"WAKEGATE_{name}": value})
        assert "s3cret" not in str(refused.value)


def test_a_path_where_a_socket_is_names_the_control_api_whatever_its_name(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="wg", dir="/tmp"))
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder / "c"))
        found = find(folder / "c", {})
    (folder / "c").unlink()
    folder.rmdir()
    assert found == Control(folder / "c", None)


def test_over_tcp_the_token_comes_from_a_file_that_only_its_owner_may_read(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a" * 40 + "\n")
    file.chmod(0o600)
    environment = {"WAKEGATE_CONTROL": "127.0.0.1:8090", TOKEN_FILE: str(file)}
    found = find(None, environment)
    assert isinstance(found, Control)
    assert found.address == Address("127.0.0.1", 8090)
    assert found.token is not None
    assert found.token.reveal() == "a" * 40
    assert "aaaa" not in repr(found)
    file.chmod(0o640)
    with pytest.raises(SecretFileError, match="chmod 600"):
        find(None, environment)
    with pytest.raises(NotConfigured, match=f"set {TOKEN_FILE}"):
        find("127.0.0.1:8090", {})


def test_a_token_in_the_place_of_its_file_is_refused_and_not_shown() -> None:
    with pytest.raises(NotConfigured, match=f"^{TOKEN_FILE}: looks like a secret") as refused:
        find("127.0.0.1:8090", {TOKEN_FILE: "b" * 43})
    assert "bbbb" not in str(refused.value)


@each_row("control", ["", "192.0.2.1:80", "127.0.0.1:0", "127.0.0.1:99999", "/" + "x" * 120, "http://x"])
def test_an_unusable_control_address_is_refused_by_the_variables_name(control: str) -> None:
    with pytest.raises(NotConfigured, match=r"^WAKEGATE_CONTROL: "):
        find(None, {"WAKEGATE_CONTROL": control})


def test_without_any_word_the_error_says_what_to_set() -> None:
    with pytest.raises(NotConfigured, match=r"set WAKEGATE_CONTROL .* or WAKEGATE_DATABASE"):
        find(None, {})


@each_row(
    "url",
    [
        "",
        "postgresql://me:s3cret@db/wakegate",
        "postgres://db/wakegate",
        "http://127.0.0.1:8080",
        "sqlite:///",
        "sqlite://x.db",
    ],
)
def test_an_unusable_database_is_refused_by_the_variables_name(url: str) -> None:
    with pytest.raises(NotConfigured, match=r"^WAKEGATE_DATABASE: ") as refused:
        find(None, {"WAKEGATE_DATABASE": url})
    assert "s3cret" not in str(refused.value)


def test_the_only_instance_in_use_need_not_be_named() -> None:
    only = an_instance("desk")
    assert choose([an_instance("old", "retired"), only], None) is only


def test_a_parked_instance_still_takes_calls() -> None:
    parked = an_instance("desk", "parked")
    assert choose([parked], None) is parked


def test_several_instances_must_be_told_apart() -> None:
    with pytest.raises(InstanceUnclear, match="in use are: a, b"):
        choose([an_instance("b"), an_instance("a")], None)


def test_no_instance_says_how_to_make_one() -> None:
    with pytest.raises(InstanceUnclear, match="wakegate instance provision"):
        choose([], None)


def test_an_instance_is_found_by_name_and_by_id_in_either_case() -> None:
    desk, other = an_instance("desk"), an_instance("other")
    assert choose([desk, other], "desk") is desk
    assert choose([desk, other], desk.instance_id.upper()) is desk


def test_an_unknown_instance_is_refused_with_those_there_are() -> None:
    with pytest.raises(InstanceUnclear, match="'nowhere', and there is no such one; in use are: desk"):
        choose([an_instance("desk")], "nowhere")


def test_one_id_at_two_providers_is_unclear() -> None:
    first = an_instance("a")
    second = replace(first, name="b", provider="https://two.example")
    with pytest.raises(InstanceUnclear, match="2 fit"):
        choose([first, second], first.instance_id)


def test_a_name_in_use_comes_before_a_retired_one() -> None:
    old, new = an_instance("desk", "retired"), an_instance("desk")
    assert choose([old, new], "desk") is new
    assert choose([old], "desk") is old


def refund(amount: int, *, currency: str = "EUR") -> None:
    """What a harness would run."""


@pytest.mark.parametrize("arguments", [{"amount": 1}, {"amount": 1, "currency": "USD"}])
def test_arguments_that_fit_the_callable_are_taken(arguments: dict[str, Any]) -> None:
    check_fits(refund, arguments)


@pytest.mark.parametrize("arguments", [{}, {"amount": 1, "speed": 2}])
def test_arguments_that_do_not_fit_are_refused_before_anything_is_saved(arguments: dict[str, Any]) -> None:
    with pytest.raises(CallRefused) as refused:
        check_fits(refund, arguments)
    assert refused.value.reason == "arguments_do_not_fit"


@each_row("failures", [[ValueError], (ValueError("x"),), (KeyboardInterrupt,), ValueError])
def test_failures_must_be_a_tuple_of_exception_classes(failures: Any) -> None:
    with pytest.raises(CallRefused, match="tuple of exception classes"):
        check_failures(failures)
