"""Failures of an instance that are not the user's fault."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from barograph.errors import BarographError, JobError, JobRefused


class Unable(BarographError):
    """The instance cannot do its work, and the user is not the cause."""


@contextlib.contextmanager
def not_the_users_fault() -> Iterator[None]:
    """Raise errors in the block as `Unable`, except when it refuses what the user gave."""
    try:
        yield
    except JobRefused:
        raise
    except JobError as error:
        raise Unable(str(error)) from error
