"""The file that an archive is: on this machine, or an object in a bucket."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO
from urllib.parse import unquote

from barograph.errors import ImportFailed, ObjectNotFound, SettingsError, StoreDenied
from barograph.store.base import Openable, Store
from barograph.store.urls import store_from_url


def local_path(place: str | os.PathLike[str]) -> Path | None:
    """Return the file of this machine that a place is; None where it is an object of a bucket.

    Example:
        >>> local_path("runs/digits.zip"), local_path("s3://bucket/digits.zip")
        (PosixPath('runs/digits.zip'), None)
    """
    text = os.fspath(place)
    if text.lower().startswith("file://"):
        return Path(unquote(text[len("file://"):].removeprefix("localhost")))
    return Path(text).expanduser() if "://" not in text else None


def object_at(place: str | os.PathLike[str]) -> tuple[Store, str]:
    """Return the store, and the name in it, of an object of a bucket; nothing is asked yet.

    Raises:
        SettingsError: It names no object.
        StoreError: The environment does not say how to reach the bucket.
    """
    above, _, name = os.fspath(place).rpartition("/")
    if not name or above.endswith(("/", ":")):
        raise SettingsError(f'"{os.fspath(place)}" names no object in a bucket; write s3://BUCKET/FOLDER/NAME.zip.')
    return store_from_url(above), name


def opened(place: str | os.PathLike[str]) -> IO[bytes]:
    """Return the bytes of an archive; of one in a bucket those alone are fetched that are read.

    Raises:
        ImportFailed: There is none.
        SettingsError: The place is none.
        StoreError: It cannot be read.
    """
    path = local_path(place)
    if path is None:
        return _fetched(*object_at(place), os.fspath(place))
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise ImportFailed(f"There is no archive at {path}: no such file.") from None
    except OSError as error:
        raise StoreDenied(f"{path} cannot be read: {error.strerror}.") from error


def _fetched(store: Store, name: str, place: str) -> IO[bytes]:
    if not isinstance(store, Openable):
        raise SettingsError(f"{place} cannot be read here and there; copy it to a disk first.")
    try:
        return store.opened(name)
    except ObjectNotFound:
        store.list(name)  # where the bucket itself does not exist, this says so
        raise ImportFailed(f"There is no archive at {place}: no such object.") from None
