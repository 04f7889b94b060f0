"""Reading `barograph.toml`."""

from __future__ import annotations

import os
import stat
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
        data = tomllib.loads(_bytes_of(Path(path)).decode("utf-8"))
    except UnicodeDecodeError as error:
        byte = f"byte {error.start} is 0x{error.object[error.start]:02x}"
        raise SettingsError(f"The settings file is not text in UTF-8: {byte}. Save it as UTF-8, or name another file "
                            f"with --config ({path}).") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"The settings file is not valid TOML: {error} ({path}).") from error
    try:
        return settings_from_mapping(data, base=base)
    except SettingsError as error:
        raise type(error)(f"{error} ({path})") from error


def _bytes_of(path: Path) -> bytes:
    """Return the content of a file; a pipe or a device is never opened, which might wait for ever."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            raise SettingsError(f"The settings file is {what}. Rename it, or name a file with --config ({path}).")
        return path.read_bytes()
    except FileNotFoundError:
        raise SettingsError(f"No settings file at {path}.") from None
    except OSError as error:
        raise SettingsError(f"Cannot read the settings file: {error.strerror or error}. Make it readable, or name "
                            f"another file with --config ({path}).") from error
