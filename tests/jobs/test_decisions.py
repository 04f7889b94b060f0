from __future__ import annotations

import math
from dataclasses import replace

import pytest

from barograph.jobs.decisions import End, Finish, Requeue, Start, decide
from barograph.jobs.job_log import Event
from barograph.jobs.spec import JobSpec
from barograph.jobs.state import Ended, JobState, Outcome, Phase, state_after

SPEC = JobSpec(("train.py",))
QUEUED = state_after([Event("submitted", 100.0)])
RUNNING = state_after([Event("starting", 110.0, {"attempt": 0}), Event("started", 110.0, {"index": 0, "handle": {}})],
                      QUEUED)


def ended(state: JobState, outcome: str, *, at: float = 200.0, index: int = 0, code: int | None = None,
          reason: str = "") -> JobState:
    data = {"index": index, "outcome": outcome, "exit_code": code, "reason": reason}
    return state_after([Event("ended", at, data)], state)


def two_running() -> JobState:
    return state_after([Event("started", 111.0, {"index": 1, "handle": {}})], RUNNING)


def test_a_queued_job_is_started() -> None:
    assert decide(QUEUED, SPEC, 101.0) == Start(0)


def test_a_running_job_is_left_alone() -> None:
    assert decide(RUNNING, SPEC, 1e9) is None


def test_a_job_whose_script_ended_with_0_is_finished() -> None:
    assert decide(ended(RUNNING, "finished", code=0), SPEC, 201.0) == Finish(Phase.FINISHED, "", 0)


def test_an_error_of_the_script_is_the_users_and_ends_the_job() -> None:
    state = ended(RUNNING, "script", code=3, reason="The script ended with exit code 3.")
    assert decide(state, SPEC, 201.0) == Finish(Phase.FAILED, "The script ended with exit code 3.", 3, users_fault=True)


def test_an_error_of_the_script_is_retried_if_asked_for() -> None:
    state = ended(RUNNING, "script", code=3, reason="It failed.")
    spec = replace(SPEC, retries=1)
    assert decide(state, spec, 201.0) == Requeue(Outcome.SCRIPT, "It failed.")
    again = state_after([Event("requeued", 201.0, {"cause": "script", "reason": "It failed."}),
                         Event("starting", 202.0, {"attempt": 1}),
                         Event("started", 202.0, {"index": 0, "handle": {}})], state)
    assert (again.errors, again.interruptions, again.attempt) == (1, 0, 1)
    second = ended(again, "script", code=3, reason="It failed.")
    assert decide(second, spec, 203.0) == Finish(Phase.FAILED, "It failed.", 3, users_fault=True)


def test_a_lost_instance_is_replaced_any_number_of_times() -> None:
    state = replace(ended(RUNNING, "lost", reason="The instance was lost."), interruptions=100)
    assert decide(state, SPEC, 201.0) == Requeue(Outcome.LOST, "The instance was lost.")


def test_a_lost_instance_is_not_replaced_after_the_last_restart() -> None:
    state = replace(ended(RUNNING, "lost", reason="The instance was lost."), interruptions=2)
    assert decide(state, replace(SPEC, max_restarts=2), 201.0) == Finish(
        Phase.FAILED, "The instance was lost. It was restarted 2 times (max-restarts).")


def test_if_one_instance_is_lost_the_others_are_ended_and_it_is_the_cause() -> None:
    spec = replace(SPEC, instances=2)
    state = ended(two_running(), "lost", index=1, reason="The instance was lost.")
    assert decide(state, spec, 201.0) == End()
    state = state_after([Event("stopping", 201.0, {"reason": ""})], state)
    assert decide(state, spec, 202.0) is None
    state = ended(state, "script", at=203.0, code=1, reason="Connection closed by peer.")
    assert decide(state, spec, 204.0) == Requeue(Outcome.LOST, "Instance 2 of 2: The instance was lost.")


def test_a_failed_worker_fails_a_job_whose_other_script_ended_with_0() -> None:
    state = ended(ended(two_running(), "finished", code=0), "script", index=1, code=7, reason="It failed.")
    assert decide(state, replace(SPEC, instances=2), 201.0) == Finish(
        Phase.FAILED, "Instance 2 of 2: It failed.", 7, users_fault=True)


def test_a_request_stops_a_queued_job_at_once_and_a_running_one_with_a_checkpoint() -> None:
    request = Event("stop", 150.0, {"reason": "requested by the user"})
    assert decide(state_after([request], QUEUED), SPEC, 151.0) == Finish(
        Phase.STOPPED, "Stopped: requested by the user.")
    state = state_after([request], RUNNING)
    assert decide(state, SPEC, 151.0) == End("requested by the user")
    state = state_after([Event("stopping", 151.0, {"reason": "requested by the user"})], state)
    assert decide(state, SPEC, 152.0) is None
    assert decide(ended(state, "interrupted", code=-15), SPEC, 201.0) == Finish(
        Phase.STOPPED, "Stopped: requested by the user.", -15)


@pytest.mark.parametrize(("now", "wanted"), [(3709.0, None), (
    3711.0, End("it reached max-runtime (1 h 0 min); raise it to train longer"))])
def test_max_runtime_counts_from_the_start_of_the_instances(now: float, wanted: End | None) -> None:
    assert decide(RUNNING, replace(SPEC, max_runtime_secs=3600.0), now) == wanted


def test_max_wait_counts_from_the_submission_and_names_what_was_waited_for() -> None:
    spec = replace(SPEC, max_wait_secs=60.0)
    assert decide(RUNNING, spec, 161.0) == End("it reached max-wait (1 min 0 s); raise it to wait longer")
    waiting = state_after([Event("waiting", 101.0, {"reason": "Waits for 2 CPUs."})], QUEUED)
    assert decide(waiting, spec, 161.0) == Finish(
        Phase.FAILED, "Not finished within 1 min 0 s (max-wait). Waits for 2 CPUs. Raise --max-wait to wait longer.")


def test_a_job_that_is_over_stays_so() -> None:
    over = state_after([Event("over", 300.0, {"phase": "failed", "reason": "It failed."})], RUNNING)
    assert decide(over, SPEC, 1e9) is None
    assert over.trained_secs == 190.0


def test_times_and_interruptions_are_added_up() -> None:
    state = state_after([
        Event("requeued", 210.0, {"cause": "interrupted", "reason": "Taken away."}),
        Event("starting", 300.0, {"attempt": 1}), Event("started", 300.0, {"index": 0, "handle": {}}),
        Event("resumed", 301.0, {"index": 0, "steps": 90, "repeated": 10}),
        Event("resumed", 301.0, {"index": 1, "steps": 90, "repeated": 10}),
        Event("ended", 400.0, {"index": 0, "outcome": "finished"}),
        Event("over", 400.0, {"phase": "finished", "reason": ""}),
    ], ended(RUNNING, "interrupted", at=210.0))
    assert (state.trained_secs, state.interruptions, state.repeated_steps, state.resumed_steps) == (200.0, 1, 10, 90)
    assert state.intervals == ((110.0, 210.0), (300.0, 400.0))
    assert state.ended == {0: Ended(Outcome.FINISHED)}


def test_an_open_interval_has_no_end() -> None:
    assert RUNNING.intervals[0][0] == 110.0
    assert math.isnan(RUNNING.intervals[0][1])


def test_an_agent_that_cannot_work_is_replaced_twice_and_then_the_job_fails() -> None:
    state = ended(RUNNING, "failed", reason="The store of the job failed: timeout.")
    assert decide(state, SPEC, 201.0) == Requeue(Outcome.FAILED, "The store of the job failed: timeout.")
    again = state_after([Event("requeued", 201.0, {"cause": "failed", "reason": "x"})], state)
    assert (again.failures, again.interruptions, again.errors) == (1, 0, 0)
    assert decide(replace(state, failures=2), SPEC, 201.0) == Finish(
        Phase.FAILED, "The store of the job failed: timeout. That happened 3 times.")
    recovered = state_after([Event("requeued", 201.0, {"cause": "lost", "reason": "x"})], replace(state, failures=2))
    assert (recovered.failures, recovered.interruptions) == (0, 1)
