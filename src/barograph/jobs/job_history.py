"""Events of a job and the end of its output, for the web UI."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from barograph.errors import ObjectNotFound
from barograph.jobs.job_log import DAMAGED, EVENTS, EventLog, log_folder
from barograph.jobs.layout import host_name
from barograph.store.base import Store

MOST_CHARS = 200_000


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened to a job.

    Attributes:
        time_unix: When.
        kind: What, such as "started", "ended" or "requeued".
        text: One sentence.
        attempt: The attempt, from 0; -1 before the first.
    """

    time_unix: float
    kind: str
    text: str
    attempt: int


@dataclass(frozen=True, slots=True)
class InstanceOutput:
    """The end of what an instance printed.

    Attributes:
        instance: Name of the instance.
        text: Its output.
        left_out: Whether earlier output is left out.
    """

    instance: str
    text: str
    left_out: bool


def history_of(store: Store) -> list[Moment]:
    """Return what happened to a job, in order.

    Raises:
        StoreError: It cannot be read.
    """
    found, attempt, waits = [], -1, ""
    for event in EventLog(store, EVENTS).new():
        attempt = int(event.data["attempt"]) if event.kind == "starting" else attempt
        text = _TEXTS[event.kind](event.data) if event.kind in _TEXTS else ""
        if event.kind == "waiting" and text == waits:
            continue
        waits = text if event.kind == "waiting" else ""
        if text:
            found.append(Moment(event.time_unix, event.kind, text, attempt))
    return found


def output_of_job(store: Store, attempt: int, instances: int) -> list[InstanceOutput]:
    """Return the end of what each instance of an attempt printed.

    Raises:
        StoreError: It cannot be read.
    """
    return [_output(store, attempt, index) for index in range(instances)]


def _output(store: Store, attempt: int, index: int) -> InstanceOutput:
    names = [item.name for item in store.list(log_folder(attempt, index)) if item.name.endswith(".log")]
    text, first = "", len(names)
    while first and len(text) < MOST_CHARS:
        first -= 1
        with contextlib.suppress(ObjectNotFound):
            text = bytes(store.get(names[first])).decode("utf-8", "replace") + text
    cut = text[-MOST_CHARS:]
    return InstanceOutput(host_name(index), cut, first > 0 or len(cut) < len(text))


def _ended(data: Mapping[str, Any]) -> str:
    code = data.get("exit_code")
    said = f" with exit code {code}" if code is not None else ""
    return f"{host_name(int(data['index']))} {data['outcome']}{said}. {data.get('reason', '')}".strip()


def _over(data: Mapping[str, Any]) -> str:
    phase, reason = str(data["phase"]).capitalize(), str(data["reason"])
    return reason if reason.startswith(phase) else f"{phase}. {reason}".strip()


_TEXTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "submitted": lambda data: "Submitted.",
    "waiting": lambda data: f"Waits: {data['reason']}",
    "starting": lambda data: f"Attempt {int(data['attempt']) + 1} starts.",
    "started": lambda data: f"{host_name(int(data['index']))} started.",
    "notice": lambda data: f"Notice of interruption: {data['reason']}",
    "resumed": lambda data: f"{host_name(int(data['index']))} resumed after {data['steps']} steps; repeats "
                            f"{data['repeated']}.",
    "ended": _ended,
    "stop": lambda data: f"Asked to stop: {data['reason']}",
    "stopping": lambda data: "Stopping.",
    "requeued": lambda data: f"Queued again: {data['reason']}",
    "over": _over,
    DAMAGED: lambda data: f"A record of the job is damaged ({data['name']}).",
}
