"""The wheel holds the six packages, their SQL, their types and the units, and what it installs runs."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTIES = ("schema", "receiver", "worker", "adapter", "provider", "console")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from this checkout, with nothing fetched."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_what_the_checkout_holds(wheel: Path) -> None:
    expected = {
        str(file.relative_to(ROOT / party))
        for party in PARTIES
        for file in (ROOT / party / f"wakegate_{party}").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    expected |= {f"wakegate_console/units/{file.name}" for file in (ROOT / "systemd").iterdir()}
    found = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert found == expected
    assert {f"wakegate_{party}/py.typed" for party in PARTIES} <= found


def test_an_installed_wheel_runs(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", target, wheel], check=True)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(target)}
    where = "import wakegate_schema, wakegate_console; print(wakegate_schema.__file__, wakegate_console.__file__)"
    shown = subprocess.run(
        [sys.executable, "-c", where], env=environment, cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert all(path.startswith(str(target)) for path in shown.stdout.split())
    migrated = subprocess.run(
        [target / "bin" / "wakegate", "db", "migrate"], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert migrated.returncode == 0, migrated.stderr
    assert (tmp_path / "wakegate.db").exists()


def test_an_installed_wheel_has_the_units_to_install(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = (
        "from wakegate_console import layout; from wakegate_console.installation import unit_files;"
        "print(unit_files.__file__, all(unit_files.unit(name, ['/x/wakegate']) for name in layout.UNIT_NAMES))"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    shown = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert shown.stdout.split() == [f"{tmp_path}/wakegate_console/installation/unit_files.py", "True"]
