"""Mapping of the errors of obstore to those of Barograph."""

from __future__ import annotations

import contextlib
import errno
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from barograph.errors import ObjectExists, ObjectNotFound, StoreDenied, StoreError, StoreFull, StoreUnavailable

_Part = TypeVar("_Part")
NO_BUCKET = "The bucket does not exist."
"""Start of the message about a missing bucket."""


class NoRanges(StoreDenied):
    """The store only reads whole objects."""


LOCAL = (OSError, NotImplementedError, ValueError)
"""Errors of directories. Those of buckets are `objects.FOREIGN`."""

UNREACHABLE = "The store cannot be reached."
"""Start of most messages of `StoreUnavailable`."""
NO_SPACE = "The store is full."
"""Prefix of the message of each StoreFull."""

_NO_KEYS = "No credentials for the store."
_BAD_NAME = re.compile("illegal character|empty path segment")
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG}


@contextlib.contextmanager
def passing_through(parts: Iterable[_Part]) -> Iterator[Iterator[_Part]]:
    """Yield the parts of an object; an error that they raise is raised again, even if the block converts it."""
    raised: list[Exception] = []

    def watched() -> Iterator[_Part]:
        try:
            yield from parts
        except Exception as error:
            raised.append(error)
            raise

    try:
        yield watched()
    except Exception:
        if raised:
            raise raised[0] from raised[0].__cause__
        raise


def store_error(error: BaseException, *, verb: str, name: str, url: str, has_answered: bool = False) -> StoreError:
    """Return the StoreError for an error of obstore.

    Args:
        error: Error of obstore.
        verb: Operation that failed.
        name: Name of the object.
        url: URL of the store.
        has_answered: The store has answered before, so it has credentials.
    """
    if isinstance(error, StoreError):
        return error
    kind, what = _reading(error, verb, name, _bucket_of(url), has_answered)
    # How the library looked for credentials is of no use to the user.
    detail = "" if what.startswith(_NO_KEYS) else f": {_first_line(error)}"
    return kind(f"{what} ({verb} {name or 'everything'} in {url}{detail})")


_Reading = tuple[type[StoreError], str]

_KEYS = {
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_AWS_KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


def _reading(
    error: BaseException, verb: str, name: str, bucket: tuple[str, str] | None, has_answered: bool
) -> _Reading:
    if bucket and "NoSuchBucket" in str(error):
        return StoreUnavailable, NO_BUCKET
    if _is_of_obstore(error, "AlreadyExistsError", "PreconditionError") or isinstance(error, FileExistsError):
        return ObjectExists, "The object already exists."
    if isinstance(error, FileNotFoundError):
        if verb == "get":
            return ObjectNotFound, "The object does not exist."
        return StoreUnavailable, "The directory does not exist."
    if _is_of_obstore(error, "PermissionDeniedError", "UnauthenticatedError") or isinstance(error, PermissionError):
        return StoreDenied, "Access to the store was denied for these credentials or this user."
    if bucket and "non-partial response" in str(error):
        return NoRanges, "The store only reads whole objects."
    if verb == "list" and _is_of_obstore(error, "BaseError") and _BAD_NAME.search(str(error)):
        return StoreDenied, "An object has a name that no file can have."
    number = _error_number(error)
    if number in _NO_ROOM:
        return StoreFull, NO_SPACE
    if number in _NOT_ALLOWED:
        return StoreDenied, "Reading or writing is not allowed there."
    # Only for buckets, because the path of a directory may contain any text.
    about_keys = _reading_of_keys(error, name, bucket, has_answered) if bucket else None
    return about_keys or (StoreUnavailable, UNREACHABLE)


def _is_of_obstore(error: BaseException, *names: str) -> bool:
    """Return whether an error is one of these obstore errors; does not import obstore for a directory."""
    known = sys.modules.get("obstore.exceptions")
    return known is not None and isinstance(error, tuple(getattr(known, name) for name in names))


def _bucket_of(url: str) -> tuple[str, str] | None:
    """Return scheme and name of a bucket; None for a directory or memory."""
    scheme, _, place = url.partition("://")
    return (scheme, place) if place and scheme not in ("file", "memory") else None


def _reading_of_keys(
    error: BaseException, name: str, bucket: tuple[str, str], has_answered: bool
) -> _Reading | None:
    scheme, place = bucket
    hosts = re.findall(r"https?://([^/\s:]+)", str(error))
    words = re.sub(r"https?://\S+", "", str(error))
    for own in (name, place, place.partition("/")[2]):
        if "credentials" in own.lower():
            words = words.replace(own, "")
    if any(host.startswith("169.254.") or host == "metadata.google.internal" for host in hosts):
        # The machine's metadata service was asked for credentials. It has either provided some before, or never will.
        if has_answered:
            return StoreUnavailable, "The credentials of this machine cannot be fetched now."
    elif "credentials" not in words.lower():
        return None
    return StoreDenied, f"{_NO_KEYS} Set {_KEYS.get(scheme, _AWS_KEYS)}."


def _error_number(error: BaseException) -> int | None:
    # obstore passes the operating system's error as text: "… (os error 28)".
    found = re.search(r"\(os error (\d+)\)", str(error))
    if found:
        return int(found.group(1))
    return error.errno if isinstance(error, OSError) else None


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].strip()
