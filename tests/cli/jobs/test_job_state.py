"""A run whose script records no steps is shown with the state of its job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barograph.jobs.job_log import EVENTS, EventLog
from barograph.jobs.spec import JobSpec
from barograph.jobs.submission import Submission, write_submission
from barograph.model.clock import SystemClock
from barograph.model.settings import Settings
from barograph.runs.state.claim import create_run
from barograph.runs.state.places import new_manifest
from barograph.store.urls import store_from_url


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A failed, a finished and a waiting job, and a run without a job."""
    for name in ("failed", "finished", "queued", "none"):
        store = store_from_url(str(tmp_path / name))
        create_run(store, new_manifest(Settings(to=store.url), command=["fit.sh"], clock=SystemClock(), name=name))
        if name == "none":
            continue
        write_submission(store, Submission(name, JobSpec(("./fit.sh",))))
        log = EventLog(store, EVENTS)
        log.append("submitted")
        if name != "queued":
            log.append("over", phase=name, reason="", exit_code=0)
    return tmp_path


def test_runs_are_listed_with_the_states_of_their_jobs(call: Callable[..., Any], runs: Path) -> None:
    rows = [line.split("\t") for line in call("runs", runs).out.splitlines()[1:]]
    assert {row[0]: row[1] for row in rows} == {
        "failed": "failed", "finished": "finished", "queued": "queued", "none": "empty"}


def test_a_run_is_shown_with_the_state_of_its_job(call: Callable[..., Any], runs: Path) -> None:
    shown = {name: call("show", runs / name).out for name in ("failed", "finished", "none")}
    assert {name: text.splitlines()[0].split() for name, text in shown.items()} == {
        "failed": ["failed", "failed"], "finished": ["finished", "finished"], "none": ["none", "empty"]}
    hints = {name: "Mark where a step ends" in text for name, text in shown.items()}
    assert not hints["failed"]
    assert hints["finished"]
