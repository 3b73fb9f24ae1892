"""Files that get their name only once they are whole."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from wakegate_schema import drafts, fault_points
from wakegate_schema.fault_points import TEST_FAULT, InjectedFault


def test_a_file_has_its_content_and_exactly_its_mode_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        assert drafts.make(tmp_path / "file", b"whole", 0o660, durable=True)
    finally:
        os.umask(before)
    assert (tmp_path / "file").read_bytes() == b"whole"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o660


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"first")
    assert not drafts.make(tmp_path / "file", b"second", 0o600, durable=False)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"first")]


@pytest.mark.parametrize("content", [None, b"first"])
def test_one_takes_the_place_of_another_or_of_none(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    drafts.replace(tmp_path / "file", b"second", 0o600)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"second")]


@pytest.mark.skipif(os.geteuid() != 0 and not os.environ.get("CI"), reason="only root may give a file away")
def test_a_replacement_may_belong_to_another_user(tmp_path: Path) -> None:
    drafts.replace(tmp_path / "file", b"second", 0o640, durable=True, owner=(1200, 1201))
    status = (tmp_path / "file").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (1200, 1201, 0o640)


@pytest.fixture
def _failing() -> Iterator[None]:
    """Every file named `file` fails once its draft is written."""
    fault_points.arm({TEST_FAULT: "file.draft:file=raise"}, lambda *_, **__: None)
    yield
    fault_points.arm({}, lambda *_, **__: None)


@pytest.mark.usefixtures("_failing")
def test_what_is_not_made_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InjectedFault):
        drafts.make(tmp_path / "file", b"second", 0o600, durable=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("_failing")
def test_what_is_not_replaced_is_there_still(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"first")
    with pytest.raises(InjectedFault):
        drafts.replace(tmp_path / "file", b"second", 0o600)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"first")]
