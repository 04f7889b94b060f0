"""The simulation agrees with the closed form, with sums made by hand, and with the controller's rules."""

from __future__ import annotations

import json
import math
import time

import pytest

from barograph.errors import SettingsError
from barograph.jobs.simulation.simulate import simulate
from barograph.jobs.simulation.trace import Trace, random_traces, trace_of_prices
from barograph.jobs.simulation.virtual import Training, VirtualJob, interval_of
from barograph.jobs.spec import JobSpec
from barograph.jobs.state import Phase

DAY = 86_400.0
EIGHT_HOURS = Training(8 * 3600.0, start_secs=120.0, checkpoint_secs=5.0)
ONE_HOUR = Training(3600.0, start_secs=100.0, checkpoint_secs=10.0)


def job(*, every_minutes: float | None = 10.0, **entries: object) -> JobSpec:
    settings = {} if every_minutes is None else {"checkpoints": {"every_minutes": every_minutes}}
    return JobSpec(("train.py",), settings=settings, **entries)  # type: ignore[arg-type]


def automatic(mtbf_hours: float) -> JobSpec:
    return JobSpec(("train.py",), spot=True, price=1.0, spot_price=0.3,
                   settings={"checkpoints": {"auto": True, "mtbf_hours": mtbf_hours}})


def simulated(spec: JobSpec, trace: Trace, training: Training = ONE_HOUR) -> VirtualJob:
    found = VirtualJob(spec, trace, training)
    found.run()
    return found


def lost_by_daly(interval_secs: float, training: Training, mtbf_secs: float) -> float:
    """The time lost in percent: Daly's complete model, T = M·exp(R/M)·(exp((τ+C)/M) − 1)·work/τ."""
    segment = math.expm1((interval_secs + training.checkpoint_secs) / mtbf_secs)
    total = mtbf_secs * math.exp(training.start_secs / mtbf_secs) * segment * training.work_secs / interval_secs
    return 100 * (total + training.start_secs) / (training.work_secs + training.start_secs) - 100


def test_time_lost_at_the_automatic_interval_is_that_of_the_closed_form() -> None:
    found = simulate(automatic(2.0), random_traces(1000, mtbf_secs=7200.0), EIGHT_HOURS)
    assert found.interval_secs == pytest.approx(268.3, abs=0.1)
    assert found.lost_percent == pytest.approx(lost_by_daly(found.interval_secs, EIGHT_HOURS, 7200.0), abs=0.2)
    assert round(found.lost_percent, 1) <= 5.5
    assert found.interruptions == pytest.approx(8 * 1.055 / 2, rel=0.05)


def test_time_lost_with_hourly_checkpoints_is_that_of_the_closed_form() -> None:
    found = simulate(job(every_minutes=60.0), random_traces(1000, mtbf_secs=7200.0), EIGHT_HOURS)
    assert found.lost_percent == pytest.approx(lost_by_daly(3600.0, EIGHT_HOURS, 7200.0), abs=2.0)
    assert 30 < found.lost_percent < 34


def test_a_thousand_traces_take_seconds() -> None:
    traces = random_traces(1000, mtbf_secs=7200.0)
    began = time.process_time()
    simulate(automatic(2.0), traces, EIGHT_HOURS)
    assert time.process_time() - began < 20


def test_a_notice_saves_all_but_the_restart() -> None:
    traces = random_traces(300, mtbf_secs=7200.0)
    warned = Training(8 * 3600.0, start_secs=120.0, checkpoint_secs=5.0, notice_secs=120.0)
    found = simulate(automatic(2.0), traces, warned)
    assert found.repeated_steps.high <= 1
    assert found.lost_percent < 4.0


def test_a_job_with_a_notice_waits_out_the_outage_that_was_announced() -> None:
    warned = Training(3600.0, start_secs=100.0, checkpoint_secs=10.0, notice_secs=120.0)
    found = simulated(job(), Trace(DAY, outages=((1000.0, 5000.0),)), warned)
    assert (found.state.interruptions, found.state.repeated_steps) == (1, 0)
    # It works from 100, with a checkpoint of 10 s, and saves at 880.
    assert found.duration_secs == 5000 + 100 + 2830 + 4 * 10


def test_replacements_are_not_taken_by_the_interruption_of_their_predecessors() -> None:
    warned = Training(3600.0, start_secs=100.0, checkpoint_secs=10.0, notice_secs=120.0)
    found = simulated(job(), Trace(DAY, interruptions=(1000.0,)), warned)
    assert (found.state.interruptions, found.state.repeated_steps) == (1, 0)
    assert found.duration_secs == 890 + 100 + 2830 + 4 * 10


def test_a_notice_that_is_too_short_for_a_checkpoint_saves_nothing() -> None:
    short = Training(3600.0, start_secs=100.0, checkpoint_secs=10.0, notice_secs=9.0)
    trace = Trace(DAY, interruptions=(1000.0,))
    assert simulated(job(), trace, short).state.repeated_steps == simulated(job(), trace).state.repeated_steps == 290


def test_equal_seeds_give_equal_forecasts() -> None:
    first, again, other = (simulate(automatic(2.0), random_traces(20, mtbf_secs=7200.0, seed=seed), EIGHT_HOURS)
                           for seed in (1, 1, 2))
    assert first == again
    assert first.duration_secs != other.duration_secs


def test_without_interruptions_only_checkpoints_cost_time() -> None:
    found = simulated(job(), Trace(DAY))
    assert found.duration_secs == 100 + 3600 + 5 * 10  # the sixth would be at the end
    assert (found.state.phase, found.state.interruptions, found.state.repeated_steps) == (Phase.FINISHED, 0, 0)


def test_work_since_the_last_checkpoint_is_made_again() -> None:
    # Starts until 100, saves 600 s of work until 710, has made 290 more at 1000.
    found = simulated(job(), Trace(DAY, interruptions=(1000.0,)))
    assert found.state.repeated_steps == 290
    assert found.duration_secs == 1000 + 100 + 3000 + 4 * 10


def test_a_checkpoint_that_was_being_written_is_lost() -> None:
    found = simulated(job(), Trace(DAY, interruptions=(709.0,)))
    assert found.state.repeated_steps == 600


def test_without_checkpoints_all_is_made_again() -> None:
    found = simulated(job(every_minutes=None), Trace(DAY, interruptions=(3000.0,)))
    assert found.state.repeated_steps == 2900
    assert found.duration_secs == 3000 + 100 + 3600


def test_an_interruption_during_the_start_loses_no_work_twice() -> None:
    found = simulated(job(), Trace(DAY, interruptions=(1000.0, 1050.0)))
    assert (found.state.interruptions, found.state.repeated_steps) == (2, 290)
    assert found.duration_secs == 1050 + 100 + 3000 + 4 * 10


def test_a_job_waits_while_there_is_no_capacity_and_pays_nothing() -> None:
    trace = Trace(DAY, outages=((0.0, 50.0), (1050.0, 5000.0)), prices=((0.0, 3600.0),))
    found = simulated(job(), trace)
    assert found.duration_secs == 5000 + 100 + 3000 + 4 * 10
    assert found.state.interruptions == 1
    assert found.cost == pytest.approx(1000 + 100 + 3000 + 4 * 10)


def test_the_controllers_rules_hold_in_the_simulation() -> None:
    often = Trace(200.0, interruptions=(150.0,))
    assert simulated(job(max_restarts=3), often).state.reason.endswith("It was restarted 3 times (max-restarts).")
    late = simulated(job(max_wait_secs=5000.0), Trace(DAY, outages=((1000.0, 80_000.0),)))
    assert (late.state.phase, round(late.duration_secs)) == (Phase.FAILED, 5000)
    stopped = simulated(job(max_runtime_secs=1800.0), Trace(DAY, interruptions=(1000.0,)))
    assert (stopped.state.phase, round(stopped.duration_secs)) == (Phase.STOPPED, 1810)
    assert "max-runtime" in stopped.state.reason


def test_all_instances_are_paid_and_end_with_the_first() -> None:
    trace = Trace(DAY, interruptions=(1000.0,), prices=((0.0, 3600.0),))
    found = simulated(job(instances=3), trace)
    assert len(found.state.intervals) == 6
    assert found.cost == pytest.approx(3 * found.duration_secs)
    assert found.state.interruptions == 1


def test_a_job_that_never_gets_on_does_not_finish() -> None:
    found = simulate(job(), [Trace(200.0, interruptions=(150.0,)), Trace(DAY, outages=((0.0, DAY),)), Trace(DAY)],
                     ONE_HOUR)
    assert found.finished_share == pytest.approx(1 / 3)
    none = simulate(job(), [Trace(DAY, outages=((0.0, DAY),))], ONE_HOUR)
    assert none.lines == ["0% of 1 simulation finished"]
    assert json.loads(json.dumps(none.to_json(), allow_nan=False))["lost_percent"] is None


def test_a_forecast_says_why_jobs_do_not_finish() -> None:
    found = simulate(job(max_wait_secs=1800.0), [Trace(DAY)], ONE_HOUR)
    assert found.lines == ["0% of 1 simulation finished",
                           "most of the others: Stopped: it reached max-wait (30 min 0 s); raise it to wait longer."]


def test_prices_of_the_job_count_where_the_trace_has_none() -> None:
    spot = job(spot=True, price=2.0, spot_price=0.5)
    found = simulate(spot, [Trace(DAY)], Training(3500.0, start_secs=100.0, checkpoint_secs=0.0))
    assert (found.cost.median, found.on_demand_cost) == (0.5, 2.0)
    traced = simulate(spot, [trace_of_prices([(0, 1.0), (1800, 3.0), (DAY, 3.0)])],
                      Training(3500.0, start_secs=100.0, checkpoint_secs=0.0))
    assert traced.cost.median == pytest.approx(0.5 * 1 + 0.5 * 3)


def test_a_forecast_for_people() -> None:
    spec = automatic(24.0)
    found = simulate(spec, [Trace(7200.0, interruptions=(7000.0,))], EIGHT_HOURS)
    assert found.lines == [
        "100% of 1 simulation finished",
        "duration: 8 h 45 min (90% between 8 h 45 min and 8 h 45 min)",
        "cost: 2.63 (90% between 2.63 and 2.63); 8.03 on demand",
        "4.0 interruptions, 1,954 repeated steps, 8.9% of time lost; a checkpoint every 15 min 30 s",
        "an interruption every 2 h 0 min: a checkpoint every 4 min 28 s loses less (checkpoints.mtbf_hours = 2)",
    ]


@pytest.mark.parametrize("training", [Training(0.0), Training(math.nan), Training(1.0, start_secs=-1.0),
                                      Training(1.0, checkpoint_secs=math.inf), Training(1.0, step_secs=0.0)])
def test_times_out_of_range_are_refused(training: Training) -> None:
    with pytest.raises(SettingsError, match="it must be"):
        simulate(job(), [Trace(DAY)], training)


def test_no_traces_are_refused() -> None:
    with pytest.raises(SettingsError, match="at least one trace"):
        simulate(job(), [], ONE_HOUR)


def test_checkpoints_that_cost_nothing_are_saved_after_each_step() -> None:
    free = Training(3600.0, step_secs=2.0, start_secs=100.0, checkpoint_secs=0.0)
    assert interval_of(automatic(2.0), free) == 2.0
    found = simulate(automatic(2.0), [Trace(DAY, interruptions=(1000.5,))], free)
    assert found.repeated_steps.high == 0
    assert found.duration_secs.median == 1000.5 + 100 + 2700
    assert len(found.lines) == 4


def test_intervals_are_those_of_the_recording() -> None:
    assert interval_of(JobSpec(("train.py",)), ONE_HOUR) == math.inf
    assert interval_of(JobSpec(("train.py",), checkpoint="every=50"), Training(3600.0, step_secs=2.0)) == 100
    assert interval_of(JobSpec(("train.py",), checkpoint="5m"), ONE_HOUR) == 300
    assert interval_of(JobSpec(("train.py",), spot=True), EIGHT_HOURS) == pytest.approx(464.8, abs=0.1)


def test_a_training_that_is_always_interrupted_before_it_saves_ends_the_simulation() -> None:
    week = Training(7 * DAY, start_secs=120.0, checkpoint_secs=5.0)
    found = simulate(job(every_minutes=None), random_traces(1000, mtbf_secs=7200.0), week)
    assert found.finished_share == 0
    assert found.lines == ["0% of 10 simulations finished", "Without checkpoints, the training starts again after each "
                           "interruption. Add --spot or --checkpoint-every auto (in a job file: spot = true)."]


def test_a_long_training_with_checkpoints_survives_any_number_of_interruptions() -> None:
    long = Training(60 * DAY, start_secs=120.0, checkpoint_secs=5.0)
    found = simulate(automatic(2.0), random_traces(2, mtbf_secs=7200.0), long)
    assert found.finished_share == 1
    assert found.interruptions > 600
