"""A development folder: a settings file and a `.gitignore`; the services make the rest when they need it."""

from collections.abc import Callable, Iterator
from pathlib import Path

from wakegate_console.installation import templates
from wakegate_console.installation.steps import Found, Step
from wakegate_schema import drafts
from wakegate_schema.setting_sources import DEFAULT_CONFIG

_FILE_MODE = 0o644


def steps(folder: Path) -> Iterator[Step]:
    """Give every step in its order."""
    settings, ignored = folder / DEFAULT_CONFIG, folder / ".gitignore"
    yield Step("directory", str(folder), "where to run the commands", lambda: _look(folder, Path.is_dir), folder.mkdir)
    yield Step(
        "file",
        str(settings),
        "every setting, at its default",
        lambda: _look(settings, Path.is_file),
        lambda: _make(settings, templates.development()),
    )
    yield Step(
        "file",
        str(ignored),
        "keeps secrets and stores out of git",
        lambda: _look(ignored, Path.is_file, _lacks),
        lambda: _make(ignored, "\n".join(templates.IGNORED) + "\n"),
    )


def _look(path: Path, is_right: Callable[[Path], bool], lacks: Callable[[Path], str] = lambda _: "") -> Found | None:
    if not path.exists():
        return Found("is a link to nothing; move it away and run this again") if path.is_symlink() else None
    return Found(lacks(path) if is_right(path) else "is something else; move it away, or name another folder")


def _lacks(ignored: Path) -> str:
    missing = templates.missing_patterns(ignored)
    return f"add to it: {' '.join(missing)}" if missing else ""


def _make(path: Path, text: str) -> None:
    drafts.make(path, text.encode(), _FILE_MODE, durable=False)
