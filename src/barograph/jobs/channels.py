"""The channels of a job: listed once at its submission, delivered on each instance."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from barograph.errors import BarographError, DamagedChunk, JobRefused, ObjectNotFound, SettingsError
from barograph.jobs.data.channel import Channel, Mode, channel_from_json, channel_from_text
from barograph.jobs.data.listing import DataListing, listing_from_json
from barograph.jobs.data.progress import DeliveryProgress
from barograph.jobs.home import JobsHome
from barograph.jobs.job_log import NOW, instance_folder
from barograph.jobs.spec import JobSpec
from barograph.model.items import ArtifactLink, Entry, Verb
from barograph.runs.format.layout import JOB
from barograph.runs.format.metadata import sealed, unsealed
from barograph.runs.state.journal import JOURNAL_OF_RUN, Journal
from barograph.store.base import Store
from barograph.watch.figures import count, size

if TYPE_CHECKING:
    from barograph.jobs.data.delivery import Delivery

_DATA = f"{JOB}/data"


class ListedChannel(NamedTuple):
    """A channel with its objects.

    Attributes:
        channel: The channel.
        listing: Its objects.
    """

    channel: Channel
    listing: DataListing

    def __str__(self) -> str:
        parts = [self.channel.source, count(len(self.listing.objects), "object"), size(self.listing.total_bytes)]
        words = ["sharded"] if self.channel.sharded else []
        if self.channel.mode is not Mode.COPY:
            words.append(str(self.channel.mode))
        return ", ".join([*parts, *words])


def listed_channels(spec: JobSpec, directory: Path, home: JobsHome) -> tuple[list[ListedChannel], list[str]]:
    """Return the channels of a job with their objects, and what is wrong with them, a sentence each.

    Args:
        spec: The job.
        directory: What paths are relative to.
        home: Directory of the jobs of this user.

    Raises:
        StoreUnavailable: A bucket cannot be reached.
    """
    found: list[ListedChannel] = []
    problems: list[str] = []
    if not spec.data:
        return found, problems
    # Loaded here: most of the time of starting a job without data.
    from barograph.jobs.data.lazy import lazy_problem
    from barograph.jobs.data.pipes import pipe_problem
    from barograph.jobs.data.sharding import problems_of
    from barograph.jobs.data.source import objects_of
    from barograph.jobs.leftovers import probe_directory

    for name, text in spec.data.items():
        try:
            channel = channel_from_text(f"{name}={text}", directory=directory)
            listing = objects_of(channel)
        except (JobRefused, SettingsError) as error:
            problems.append(str(error))
            continue
        found.append(ListedChannel(channel, listing))
        problems += problems_of(channel, listing, spec.instances)
    modes = {item.channel.mode for item in found}
    if spec.engine == "local":
        if Mode.LAZY in modes:
            with probe_directory(home) as place:
                problems.append(lazy_problem(place))
        problems += [pipe_problem()] * (Mode.PIPE in modes)
    return found, [problem for problem in problems if problem]


def write_channels(store: Store, run_id: str, channels: list[ListedChannel], *, now_unix: float) -> None:
    """Write the channels of a job, and enter them as inputs of its run.

    Raises:
        StoreError: The store rejects them.
    """
    for item in channels:
        body = {"channel": item.channel.to_json(), "listing": item.listing.to_json()}
        store.put(f"{_DATA}/{item.channel.name}.json", sealed(body, on_one_line=True))
    if channels:
        Journal(store, JOURNAL_OF_RUN).write([Entry(run_id, Verb.INPUT, asdict(_link(item)), now_unix)
                                              for item in channels])


def read_channels(store: Store, spec: JobSpec) -> list[ListedChannel]:
    """Return the channels of a job.

    Raises:
        DamagedChunk, StoreError: They cannot be read.
    """
    found = []
    for name in spec.data:
        body = unsealed(store.get(f"{_DATA}/{name}.json"), f"{_DATA}/{name}.json")
        found.append(ListedChannel(channel_from_json(name, body["channel"]), listing_from_json(body["listing"])))
    return found


@contextlib.contextmanager
def delivered(
    channels: list[ListedChannel], directory: Path, *, index: int, count: int, cache: Path, cancelled: threading.Event,
    progress: Callable[[Mapping[str, DeliveryProgress]], None], opened_epochs: int = 0,
) -> Iterator[list[Delivery]]:
    """Bring the channels of a job to an instance before the block; raises as `deliver`.

    Args:
        channels: The channels.
        directory: Contains a directory for each.
        index: Number of this instance, from 0.
        count: Number of instances.
        cache: Directory for objects that jobs share.
        cancelled: Set by the caller to end the delivery early.
        progress: Called with the progress of all channels by name.
        opened_epochs: Pipes that earlier attempts opened: a script that resumes may open the next one first.
    """
    if not channels:
        yield []
        return
    from barograph.jobs.data.delivery import deliver
    from barograph.jobs.data.settings import USUAL

    settings = replace(USUAL, epochs_ahead=USUAL.epochs_ahead + opened_epochs)
    seen: dict[str, DeliveryProgress] = {}

    def note(item: DeliveryProgress) -> None:
        seen[item.channel] = item
        progress(seen)

    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(deliver(
            item.channel, item.listing, directory / item.channel.name, index=index, count=count, cache=cache,
            progress=note, cancelled=cancelled, settings=settings)) for item in channels]


def opened_before(store: Store, attempt: int, index: int) -> int:
    """Return how many pipes of a channel the attempt before opened on an instance, as its last heartbeat says."""
    name = f"{instance_folder(attempt - 1, index)}/{NOW}"
    try:
        return int(unsealed(store.get(name), name).get("opened_epochs", 0)) if attempt else 0
    except (ObjectNotFound, DamagedChunk):
        return 0


def failure_of(deliveries: list[Delivery]) -> BarographError | None:
    """Return the first error of a delivery since the script started; None if there was none."""
    return next((item.failure for item in deliveries if item.failure is not None), None)


def _link(item: ListedChannel) -> ArtifactLink:
    uri = item.channel.source if item.channel.is_remote else Path(item.channel.source).as_uri()
    return ArtifactLink(item.channel.name, uri, "", f"listing:{item.listing.fingerprint}", item.listing.total_bytes)
