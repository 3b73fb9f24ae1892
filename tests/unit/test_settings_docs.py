"""The settings page lists exactly the settings there are, as they are."""

from pathlib import Path

from wakegate_schema.setting_descriptions import SettingDescription, describe
from wakegate_schema.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def row(setting: SettingDescription) -> str:
    """Return the table row that the page has for a setting."""
    variable = f"`{setting.env_name}`" if setting.env_name else "file only"
    return f"| {variable} | `{setting.name}` | {setting.default} | {setting.unit} | {setting.meaning} |"


def rows() -> list[str]:
    """Return the rows of the page's tables, without their heads."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [line for line in lines if not line.startswith("| Variable ")]


def test_the_page_lists_every_setting_and_no_other() -> None:
    assert rows() == [row(setting) for setting in describe()]


def test_every_setting_is_described() -> None:
    assert [setting.name for setting in describe()] == list(Settings.model_fields)
    for setting in describe():
        assert setting.meaning.endswith(".")
        assert "|" not in setting.meaning + setting.default


def test_the_page_says_what_is_deliberately_no_setting() -> None:
    assert "five minutes" in PAGE.read_text(encoding="utf-8")
