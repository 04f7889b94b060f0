"""The sources that a job listens to, and the watch that merges their notices."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.jobs.interruptions.background import BackgroundSource
from barograph.jobs.interruptions.file import FileSource
from barograph.jobs.interruptions.notice import InterruptionSource, Notice
from barograph.jobs.interruptions.ray_drain import RayDrainSource
from barograph.jobs.interruptions.signals import SignalSource, signal_source_from
from barograph.model.clock import Clock, SystemClock
from barograph.processes.ray_drain import RAY_NODE_VARIABLE, drain_of, node_from

NAMES = ("aws", "gcp", "azure", "signals", "ray", "file")
_URL_VARIABLES = {"aws": ("AWS_EC2_METADATA_SERVICE_ENDPOINT",), "gcp": ("GCE_METADATA_HOST",), "azure": ()}
_EARLIER_SECS = 1.0
"""A deadline that is earlier by less is the same: clocks of services differ."""


def sources_named(names: str, *, directory: str | Path | None = None, urls: Mapping[str, str] | None = None,
                  signals: str = "", grace_secs: float | None = None,
                  environment: Mapping[str, str] = os.environ) -> tuple[InterruptionSource, ...]:
    """Return interruption sources. None of them blocks in `poll`.

    Args:
        names: "auto", "none", or comma-separated names. "auto": the three clouds, each until its metadata service
            turns out not to exist; signals; Ray on a node of a cluster; the file if there is a directory.
            Clouds that are named are polled forever.
        directory: Where `FileSource` reads its notice.
        urls: Base URL of the metadata service by name of the source; otherwise `AWS_EC2_METADATA_SERVICE_ENDPOINT`
            and `GCE_METADATA_HOST` in the environment, and the link-local address.
        signals: See `signal_source_from`. Signals are handled only in the main thread: create the sources there.
        grace_secs: See `SignalSource`.
        environment: Variables of this process.

    Raises:
        UnknownName: There is no such source or signal.
        SettingsError: A source that is named cannot work here.

    Example:
        >>> [source.name for source in sources_named("aws,gcp")]
        ['aws', 'gcp']
        >>> sources_named("none")
        ()
    """
    chosen = [part.strip() for part in names.split(",") if part.strip()]
    if chosen == ["none"]:
        return ()
    auto = chosen == ["auto"]
    for name in () if auto else chosen or [""]:
        if name not in NAMES:
            raise UnknownName(f'"{name}" is not an interruption source. {nearest(name, (*NAMES, "auto", "none"))}')
    made: list[InterruptionSource | None] = []
    for name in NAMES if auto else dict.fromkeys(chosen):
        if name in _URL_VARIABLES:
            made.append(_cloud(name, urls or {}, environment, certain=not auto))
        elif name == "signals":
            made.append(_signals(signals, grace_secs, environment, auto=auto))
        elif name == "ray":
            made.append(_ray(environment, auto=auto))
        else:
            made.append(_file(directory, auto=auto))
    return tuple(source for source in made if source is not None)


class NoticeWatch:
    """Merges the notices of all sources of one instance.

    Args:
        sources: Each is polled at its own interval.
        clock: For the intervals.
    """

    def __init__(self, sources: Sequence[InterruptionSource], clock: Clock | None = None) -> None:
        self._sources = tuple(sources)
        self._clock = clock or SystemClock()
        self._due = [-math.inf] * len(self._sources)
        self._known: Notice | None = None

    def poll(self) -> Notice | None:
        """Return a notice that changes what is known about the end of this instance, otherwise None.

        The first notice is returned once. A later one is returned if it is firm after an advisory one, or if its
        deadline is earlier.
        """
        now = self._clock.monotonic()
        seen = []
        for index, source in enumerate(self._sources):
            if now >= self._due[index]:
                self._due[index] = now + source.interval_secs
                seen.append(source.poll())
        first = min((notice for notice in seen if notice is not None), key=_urgency, default=None)
        if first is None or (self._known is not None and not _changes(self._known, first)):
            return None
        self._known = first
        return first


def _urgency(notice: Notice) -> tuple[bool, float]:
    return notice.advisory, math.inf if notice.deadline_unix is None else notice.deadline_unix


def _changes(known: Notice, later: Notice) -> bool:
    if known.advisory != later.advisory:
        return known.advisory
    return _urgency(later)[1] < _urgency(known)[1] - _EARLIER_SECS


def _cloud(name: str, urls: Mapping[str, str], environment: Mapping[str, str], *,
           certain: bool) -> BackgroundSource | None:
    if name == "aws" and environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return None
    # Loaded here, because most jobs are on one's own machine and need no HTTP.
    from barograph.jobs.interruptions.aws import AwsSource
    from barograph.jobs.interruptions.azure import AzureSource
    from barograph.jobs.interruptions.gcp import GcpSource
    from barograph.jobs.interruptions.metadata import LINK_LOCAL

    kinds: Mapping[str, type[AwsSource | GcpSource | AzureSource]] = {
        "aws": AwsSource, "gcp": GcpSource, "azure": AzureSource,
    }
    asked = [urls.get(name, ""), *(environment.get(variable, "") for variable in _URL_VARIABLES[name])]
    url = next((url.strip() for url in asked if url.strip()), LINK_LOCAL)
    source = kinds[name](url if "://" in url else f"http://{url}", certain=certain)
    return BackgroundSource(source, lambda: source.disabled)


def _signals(signals: str, grace_secs: float | None, environment: Mapping[str, str], *,
             auto: bool) -> SignalSource | None:
    source = signal_source_from(environment, signals=signals, grace_secs=grace_secs)
    if threading.current_thread() is not threading.main_thread():
        if auto:
            return None
        raise SettingsError('The interruption source "signals" works only in the main thread.')
    source.install()
    return source


def _ray(environment: Mapping[str, str], *, auto: bool) -> BackgroundSource | None:
    node = node_from(environment)
    if node is not None:
        return BackgroundSource(RayDrainSource(drain_of(node)))
    if auto:
        return None
    raise SettingsError(f'The interruption source "ray" needs a node of a Ray cluster: {RAY_NODE_VARIABLE} is not set.')


def _file(directory: str | Path | None, *, auto: bool) -> FileSource | None:
    if directory is not None:
        return FileSource(directory)
    if auto:
        return None
    raise SettingsError('The interruption source "file" needs a directory.')
