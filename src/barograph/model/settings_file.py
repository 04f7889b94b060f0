"""Reading `barograph.toml`."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from barograph.errors import SettingsError
from barograph.model.settings import Settings, settings_from_mapping


def settings_from_file(path: str | os.PathLike[str], *, base: Settings | None = None) -> Settings:
    """Return `base` updated with the settings in a `barograph.toml`.

    Raises:
        SettingsError: The file does not exist, is not TOML or has an invalid setting. The message has the path.
    """
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"No settings file at {path}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"Cannot read the settings file: {error} ({path}).") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"The settings file is not valid TOML: {error} ({path}).") from error
    try:
        return settings_from_mapping(data, base=base)
    except SettingsError as error:
        raise type(error)(f"{error} ({path})") from error
