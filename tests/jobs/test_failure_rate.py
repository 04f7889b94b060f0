"""A job learns from its interruptions how often to save checkpoints."""

from __future__ import annotations

import pytest

from barograph.jobs.failure_rate import checkpoints_of, launch_after, learned
from barograph.jobs.job_log import EVENTS, EventLog
from barograph.jobs.simulation.simulate import simulate
from barograph.jobs.simulation.trace import random_traces
from barograph.jobs.simulation.virtual import Training
from barograph.jobs.spec import JobSpec
from barograph.jobs.state import JobState
from barograph.model.checkpoints import CheckpointSettings
from barograph.model.launch import LAUNCH_VARIABLE, Launch, launch_from_environment
from barograph.model.settings import Settings
from barograph.store.urls import store_from_url

SPOT = JobSpec(("train.py",), spot=True, settings={"checkpoints": None})
AUTO = CheckpointSettings(auto=True, mtbf_hours=6.0)


def test_what_is_assumed_counts_as_one_interruption() -> None:
    assert learned(AUTO, SPOT, JobState(trained_secs=36_000.0, interruptions=0)) == AUTO
    assert learned(AUTO, SPOT, JobState(trained_secs=36_000.0, interruptions=1)).mtbf_hours == 8.0
    assert learned(AUTO, SPOT, JobState(trained_secs=36_000.0, interruptions=7)).mtbf_hours == 2.0


def test_what_the_user_gave_stays() -> None:
    given = JobSpec(("train.py",), spot=True, settings={"checkpoints": AUTO.to_json()})
    assert learned(AUTO, given, JobState(trained_secs=36_000.0, interruptions=7)) == AUTO


def test_a_spot_job_saves_checkpoints_by_itself() -> None:
    assert checkpoints_of(None, "", spot=True) == AUTO
    assert checkpoints_of(None, "", spot=False) is None
    assert checkpoints_of(None, "auto", spot=True) == AUTO
    hourly = checkpoints_of(None, "1h", spot=True)
    assert hourly is not None
    assert (hourly.auto, hourly.every_minutes) == (False, 60.0)
    mine = CheckpointSettings(auto=True, mtbf_hours=1.0, keep=9)
    assert checkpoints_of(mine, "", spot=True) == mine


def test_the_next_attempt_records_itself_with_what_was_learned() -> None:
    store = store_from_url("memory://learning")
    launch = Launch(Settings(to=store.url, checkpoints=AUTO), 0).to_text()
    at = iter([0.0, 0.0, 10_800.0])
    log = EventLog(store, EVENTS, clock=lambda: next(at))
    log.append("submitted")
    log.append("starting", attempt=0)
    assert launch_after(launch, SPOT, store) == launch
    log.append("requeued", cause="lost", reason="It was taken away.")
    after = launch_from_environment({LAUNCH_VARIABLE: launch_after(launch, SPOT, store)})
    assert after is not None
    assert after.settings.checkpoints is not None
    assert after.settings.checkpoints.mtbf_hours == 4.5


def test_a_job_that_does_not_record_itself_learns_nothing() -> None:
    store = store_from_url("memory://not-learning")
    assert launch_after("", SPOT, store) == ""
    launch = Launch(Settings(to=store.url), 0).to_text()
    assert launch_after(launch, SPOT, store) == launch


@pytest.mark.parametrize(("mtbf_hours", "most"), [(0.5, 18.0), (2.0, 5.9), (8.0, 2.6), (200.0, 1.3)])
def test_little_time_is_lost_at_any_rate_of_interruptions(mtbf_hours: float, most: float) -> None:
    traces = random_traces(200, mtbf_secs=3600 * mtbf_hours)
    found = simulate(JobSpec(("train.py",), spot=True), traces, Training(8 * 3600.0, start_secs=120.0))
    assert found.lost_percent < most
