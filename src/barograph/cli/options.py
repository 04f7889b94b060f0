"""Settings as they are typed: the options that `run` and others share, and how they join the file's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from barograph.errors import SettingsError
from barograph.model.settings import Settings, settings_from_mapping
from barograph.model.settings_file import settings_from_file

DEFAULT_CONFIG = "barograph.toml"
"""Read where it stands in the working directory and no other is named."""


def settings_from_options(options: Mapping[str, Any], config: str | None) -> Settings:
    """Return the settings: those typed, on top of those of the file, on top of the defaults.

    Args:
        options: Name of a setting to what was typed; None where nothing was.
        config: Path of a TOML file; None: `barograph.toml`, if there is one here.

    Raises:
        SettingsError: Something is wrong with one of them; the message says which.
    """
    base = Settings()
    if config is not None or Path(DEFAULT_CONFIG).is_file():
        base = settings_from_file(config or DEFAULT_CONFIG)
    return settings_from_mapping({name: value for name, value in options.items() if value is not None}, base=base)


def listed(text: str | None) -> list[str] | None:
    """Return the entries of a comma-separated list.

    Example:
        >>> listed("G101, G102")
        ['G101', 'G102']
    """
    return None if text is None else [entry.strip() for entry in text.split(",") if entry.strip()]


def whole_path(path: str) -> str:
    """Return where a path leads from here, whatever directory the script changes to; "" stays "".

    Raises:
        SettingsError: A directory is there, or it may not be written.
    """
    if not path:
        return ""
    place = Path(path).expanduser().absolute()
    if place.is_dir():
        raise SettingsError(f"findings_to is {path}, a directory; it must be a file, as in {path.rstrip('/')}/"
                            "findings.jsonl.")
    return str(place)


def replaced(settings: Settings, **changes: Any) -> Settings:
    """Return the settings with some of them changed."""
    return Settings(**{**{item.name: getattr(settings, item.name) for item in fields(Settings)}, **changes})
