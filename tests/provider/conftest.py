"""Fixtures of this folder."""

from pathlib import Path

import pytest

from provider.process import POLICY
from support.clocks import SetApart
from support.provider import provider_settings
from wakegate_schema import clock
from wakegate_schema.settings import Settings


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A provider's that has consumption."""
    return provider_settings(tmp_path_factory.mktemp("provider"), POLICY)


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetApart:
    """This process's wall clock."""
    made = SetApart(tmp_path)
    monkeypatch.setattr(clock, "_set_apart_by", made.environment[clock.TEST_CLOCK])
    return made
