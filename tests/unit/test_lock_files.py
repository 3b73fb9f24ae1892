"""One process at a time, by a lock file."""

import os
from pathlib import Path

from wakegate_schema import lock_files


def test_nobody_else_has_it_until_its_holder_lets_go_and_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = lock_files.take(path, 0o600)
    assert first is not None
    assert lock_files.take(path, 0o600) is None
    os.close(first)
    again = lock_files.take(path, 0o600)
    assert again is not None
    os.close(again)
    assert path.exists()
