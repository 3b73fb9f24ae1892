"""An empty store and its keys, made once for all histories."""

from pathlib import Path

import pytest
from model.machine import Machine
from model.parties import make_template


@pytest.fixture(scope="session", autouse=True)
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where every history begins."""
    directory = tmp_path_factory.mktemp("template")
    make_template(directory)
    Machine.template = directory
    return directory
