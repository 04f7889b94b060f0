"""Places on this machine that the nodes of a cluster must have too: the store of a job, and data in directories."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from barograph.jobs.spec import JobSpec

_WILDCARD = re.compile(r"[*?\[]")


@contextlib.contextmanager
def probe_of(url: str) -> Iterator[str]:
    """Yield the path of a file that only machines have which share the directory of a store; "": it is in a bucket.

    Args:
        url: URL of the store, which need not exist yet.
    """
    if not url.startswith("file:"):
        yield ""
        return
    directory = _existing(Path(unquote(urlsplit(url).path)))
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
