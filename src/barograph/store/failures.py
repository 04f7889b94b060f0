"""Foreign errors, mapped where they enter."""

from __future__ import annotations

import errno
import re

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from barograph.errors import ObjectExists, ObjectNotFound, StoreDenied, StoreError, StoreFull, StoreUnavailable

FOREIGN = (BaseError, OSError, NotImplementedError, ValueError)
"""What obstore raises."""

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG}


def store_error(error: BaseException, *, verb: str, name: str, url: str) -> StoreError:
    """Return our error for what obstore raised when it was to `verb` the object `name` of the store `url`."""
    if isinstance(error, StoreError):
        return error
    kind, what = _reading(error, verb)
    return kind(f"{what} ({verb} {name or 'everything'} in {url}: {_first_line(error)})")


def _reading(error: BaseException, verb: str) -> tuple[type[StoreError], str]:
    text = str(error)
    if "NoSuchBucket" in text:
        return StoreUnavailable, "The bucket does not exist."
    if isinstance(error, AlreadyExistsError | PreconditionError | FileExistsError):
        return ObjectExists, "An object of that name is there already."
    if isinstance(error, FileNotFoundError):
        if verb == "get":
            return ObjectNotFound, "There is no object of that name."
        return StoreUnavailable, "The place is not there."
    if isinstance(error, PermissionDeniedError | UnauthenticatedError | PermissionError):
        return StoreDenied, "The store may not be used with these credentials or by this user."
    if "169.254." in text or "credentials" in text.lower():
        return StoreDenied, "No credentials were found for the store: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
    number = _error_number(error)
    if number in _NO_ROOM:
        return StoreFull, "No room is left in the store."
    if number in _NOT_ALLOWED:
        return StoreDenied, "The store cannot be written or read there."
    return StoreUnavailable, "The store cannot be reached now."


def _error_number(error: BaseException) -> int | None:
    # obstore hands on the operating system's error as text: "… (os error 28)".
    found = re.search(r"\(os error (\d+)\)", str(error))
    if found:
        return int(found.group(1))
    return error.errno if isinstance(error, OSError) else None


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].strip()
