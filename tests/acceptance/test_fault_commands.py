"""Services as commands, and a harness, with a fault armed in their environment: told loudly, or refused."""

import re
import signal
from pathlib import Path

import pytest

from support.console import run
from wakegate_adapter import Adapter, WakegateError
from wakegate_schema.fault_points import TEST_FAULT


@pytest.mark.parametrize("service", ["receiver", "worker"])
def test_a_malformed_arming_stops_the_start_with_one_line(tmp_path: Path, service: str) -> None:
    ended = run(tmp_path, service, settings={"WAKEGATE_TEST_FAULT": "store.begin=kill"})
    assert ended.code == 2
    (line,) = ended.err.strip().splitlines()
    assert re.search(r"WAKEGATE_TEST_FAULT is 'store\.begin=kill'", line)
    assert not (tmp_path / "wakegate.db").exists()


@pytest.mark.parametrize("service", ["receiver", "worker"])
def test_an_armed_service_says_so_loudly_and_dies_where_it_should(tmp_path: Path, service: str) -> None:
    fault = "store.committed:migrations.migrate=kill"
    ended = run(tmp_path, service, settings={"WAKEGATE_TEST_FAULT": fault, "WAKEGATE_LISTEN": "127.0.0.1:0"})
    assert ended.code == -signal.SIGKILL
    assert "a fault is armed by WAKEGATE_TEST_FAULT" in ended.err
    assert "warning" in ended.err


async def test_a_malformed_arming_opens_no_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TEST_FAULT, "kill")
    with pytest.raises(WakegateError, match="WAKEGATE_TEST_FAULT"):
        await Adapter.open(f"sqlite:///{tmp_path}/wakegate.db")
