"""Location of an archive: a local file, or an object in a bucket."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO
from urllib.parse import unquote

from barograph.errors import ImportFailed, ObjectNotFound, SettingsError, StoreDenied
from barograph.store.base import Openable, Store
from barograph.store.urls import store_from_url


def local_path(place: str | os.PathLike[str]) -> Path | None:
    """Return the local path of a place; None if it is an object in a bucket.

    Example:
        >>> local_path("runs/digits.zip"), local_path("s3://bucket/digits.zip")
        (PosixPath('runs/digits.zip'), None)
    """
    text = os.fspath(place)
    if text.lower().startswith("file://"):
        return Path(unquote(text[len("file://"):].removeprefix("localhost")))
    return Path(text).expanduser() if "://" not in text else None


def object_at(place: str | os.PathLike[str]) -> tuple[Store, str]:
    """Return the store and the name of an object in a bucket, without connecting.

    Raises:
        SettingsError: It does not name an object.
        StoreError: The environment lacks the configuration of the bucket.
    """
    above, _, name = os.fspath(place).rpartition("/")
    if not name or above.endswith(("/", ":")):
        raise SettingsError(f'"{os.fspath(place)}" is not an object in a bucket; write s3://BUCKET/FOLDER/NAME.zip.')
    return store_from_url(above), name


def opened(place: str | os.PathLike[str]) -> IO[bytes]:
    """Open an archive for reading; from a bucket, only the bytes that are read are fetched.

    Raises:
        ImportFailed: The archive does not exist.
        SettingsError: The place is invalid.
        StoreError: It cannot be read.
    """
    path = local_path(place)
    if path is None:
        return _fetched(*object_at(place), os.fspath(place))
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise ImportFailed(f"No archive: the file does not exist ({path}).") from None
    except OSError as error:
        raise StoreDenied(f"Cannot read the archive: {error.strerror} ({path}).") from error


def _fetched(store: Store, name: str, place: str) -> IO[bytes]:
    if not isinstance(store, Openable):
        raise SettingsError(f"This store cannot read parts of an object. Copy the archive to a disk first ({place}).")
    try:
        return store.opened(name)
    except ObjectNotFound:
        store.list(name)  # raises if the bucket itself does not exist
        raise ImportFailed(f"No archive: the object does not exist ({place}).") from None
