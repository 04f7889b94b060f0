"""Places on this machine that the nodes of a cluster must have too: the store of a job, and data in directories."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from barograph.jobs.spec import JobSpec

_WILDCARD = re.compile(r"[*?\[]")


def is_directory(url: str) -> bool:
    """Return whether the URL of a store, as the store gives it, is a directory.

    Example:
        >>> is_directory("/runs/digits"), is_directory("s3://bucket/digits"), is_directory("")
        (True, False, False)
    """
    return bool(url) and "://" not in url


@contextlib.contextmanager
def probe_of(url: str) -> Iterator[str]:
    """Yield the path of a file that only machines have which share the directory of a store; "": it is in a bucket.

    Args:
        url: URL of the store, as the store gives it. It need not exist yet.
    """
    if not is_directory(url):
        yield ""
        return
    directory = _existing(Path(url))
    try:
        descriptor, probe = tempfile.mkstemp(prefix=".barograph-", dir=directory)
    except OSError:
        yield str(directory)  # the store says why nothing can be written there
        return
    os.close(descriptor)
    try:
        yield probe
    finally:
        os.unlink(probe)


def local_channels(spec: JobSpec) -> dict[str, str]:
    """Return the channels of a job that are not in buckets, and their existing paths.

    Raises:
        SettingsError: A channel is not valid.
    """
    if not spec.data:
        return {}
    # Loaded here: most of the time of starting a job without data.
    from barograph.jobs.data.channel import channel_from_json

    channels = [channel_from_json(name, value, directory=Path.cwd()) for name, value in spec.data.items()]
    return {channel.name: str(_existing(Path(_WILDCARD.split(channel.source)[0])))
            for channel in channels if not channel.is_remote}


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.absolute().parents) if place.exists())
