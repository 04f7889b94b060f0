"""The mean time between failures of a job, from what it has met so far."""

from __future__ import annotations

from dataclasses import replace

from barograph.jobs.job_log import EVENTS, EventLog
from barograph.jobs.spec import JobSpec
from barograph.jobs.state import JobState, state_after
from barograph.model.checkpoints import CheckpointSettings, with_cadence
from barograph.model.launch import LAUNCH_VARIABLE, Launch, launch_from_environment
from barograph.store.base import Store

SPOT_MTBF_HOURS = 6.0
"""What is assumed of spot instances before the first interruption."""

_HOUR_SECS = 3600.0


def learned(settings: CheckpointSettings, spec: JobSpec, state: JobState) -> CheckpointSettings:
    """Return settings of checkpoints for the next attempt of a job.

    mtbf = (assumed + time with instances) / (1 + interruptions)

    So what is assumed counts as one failure that was seen after that time. Settings that the user gave stay.

    Example:
        >>> state = JobState(trained_secs=4 * 3600.0, interruptions=3)
        >>> learned(CheckpointSettings(auto=True, mtbf_hours=6.0), JobSpec(), state).mtbf_hours
        2.5
    """
    if not state.interruptions or spec.settings.get("checkpoints"):
        return settings
    hours = settings.mtbf_hours + state.trained_secs / _HOUR_SECS
    return replace(settings, mtbf_hours=hours / (1 + state.interruptions))


def checkpoints_of(settings: CheckpointSettings | None, typed: str, *, spot: bool) -> CheckpointSettings | None:
    """Return the checkpoints of a job: those of its settings, else automatic ones for a spot job.

    Args:
        settings: Of the recording; None: none were set.
        typed: "auto", "every=100" or a time, which counts more; "": nothing was typed.
        spot: Whether its instances are spot instances.

    Raises:
        UnknownName, SettingsError: What was typed is none of these.
    """
    if spot and settings is None:
        settings = CheckpointSettings(auto=True, mtbf_hours=SPOT_MTBF_HOURS)
    return with_cadence(settings, typed, name="checkpoint-every") if typed else settings


def launch_after(launch: str, spec: JobSpec, store: Store) -> str:
    """Return how the next attempt of a job records itself, with what its interruptions so far have shown.

    Args:
        launch: A `Launch` as text; "": nothing is recorded.
        spec: The job.
        store: Store of the job.

    Raises:
        StoreError: The store cannot be read.
    """
    known = launch_from_environment({LAUNCH_VARIABLE: launch}) if launch else None
    if not isinstance(known, Launch) or known.settings.checkpoints is None:
        return launch
    checkpoints = learned(known.settings.checkpoints, spec, state_after(EventLog(store, EVENTS).new()))
    return replace(known, settings=replace(known.settings, checkpoints=checkpoints)).to_text()
