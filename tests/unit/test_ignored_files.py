"""What a try-out makes in a clone is never committed: keys, tokens, secrets, stores, sockets."""

from fnmatch import fnmatchcase
from pathlib import Path

from support.tables import each_row
from wakegate_schema.settings import Settings

PATTERNS = (Path(__file__).parents[2] / ".gitignore").read_text(encoding="utf-8").split()


def made() -> set[str]:
    """The names of what the services make in their working directory when nothing is set."""
    paths = {value for name in dir(Settings) if name.endswith("_path") for value in [getattr(Settings(), name)]}
    names = {path.name for path in paths if isinstance(path, Path)} | {str(Settings().control_address)}
    databases = {f"{name}{end}" for name in names if name.endswith(".db") for end in ("-wal", "-shm", "-turn", "-lock")}
    return names | databases | {"wakegate.sock.lock", "wakegate.toml"}


@each_row("name", sorted(made()))
def test_it_is_ignored(name: str) -> None:
    assert any(fnmatchcase(name, pattern.lstrip("/")) for pattern in PATTERNS)
