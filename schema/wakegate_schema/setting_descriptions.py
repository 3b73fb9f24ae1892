"""Setting descriptions: what the documentation says of every setting, taken from the settings themselves."""

from dataclasses import dataclass

from wakegate_schema.setting_sources import variable
from wakegate_schema.settings import FILE_ONLY, Settings


@dataclass(frozen=True, slots=True)
class SettingDescription:
    """One setting, for the documentation."""

    name: str
    """The key in the settings file."""
    env_name: str | None
    """The environment variable; None for what only the file can hold."""
    default: str
    """The value between backquotes, or words."""
    meaning: str
    unit: str
    """Empty where there is none."""


def describe() -> tuple[SettingDescription, ...]:
    """Return every setting in the order of its declaration, for the documentation."""
    return tuple(_description(name) for name in Settings.model_fields)


def _description(name: str) -> SettingDescription:
    field = Settings.model_fields[name]
    extra = field.json_schema_extra
    words = extra if isinstance(extra, dict) else {}
    return SettingDescription(
        name=name,
        env_name=None if name in FILE_ONLY else variable(name),
        default=str(words["words"] or f"`{field.default}`"),
        meaning=field.description or "",
        unit=str(words["unit"]),
    )
