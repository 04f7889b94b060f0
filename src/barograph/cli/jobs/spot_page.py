"""Output of `barograph spot simulate`."""

from __future__ import annotations

import math
from pathlib import Path

from barograph.cli.printing import Printer
from barograph.errors import SettingsError
from barograph.jobs.home import JobsHome
from barograph.jobs.job_report import view_of
from barograph.jobs.simulation.simulate import simulate
from barograph.jobs.simulation.trace import random_traces, shifted
from barograph.jobs.simulation.trace_file import read_trace
from barograph.jobs.simulation.virtual import Training
from barograph.jobs.spec import JobSpec, spec_from_file
from barograph.model.units import seconds_from


def print_forecast(
    job: str, *, work: str, trace: str | None, mtbf: str | None, start: str, checkpoint_cost: str, notice: str,
    step: str, simulations: int, as_json: bool,
) -> None:
    """Simulate a job and print the result; times have units.

    Raises:
        SettingsError: An argument is wrong, or a file cannot be read.
        UnknownJob: The job does not exist.
    """
    if trace is not None and mtbf is not None:
        raise SettingsError("--trace and --mtbf exclude each other: a trace has its own interruptions.")
    if simulations < 1:
        raise SettingsError(f"--simulations is {simulations}; it must be at least 1.")
    spec = _spec(job)
    traces = shifted(read_trace(Path(trace), most=_most(spec)), simulations) if trace is not None else random_traces(
        simulations, mtbf_secs=seconds_from("--mtbf", mtbf or "2h"))
    training = Training(seconds_from("--work", work), seconds_from("--step", step), seconds_from("--start", start),
                        seconds_from("--checkpoint-cost", checkpoint_cost), seconds_from("--notice", notice))
    forecast = simulate(spec, traces, training)
    printer = Printer()
    if as_json:
        printer.json(forecast.to_json())
    else:
        for line in forecast.lines:
            printer.line(line)


def _most(spec: JobSpec) -> float:
    return math.inf if math.isnan(spec.price) else spec.price


def _spec(job: str) -> JobSpec:
    return spec_from_file(Path(job)) if job.endswith(".toml") else view_of(job, JobsHome()).submission.spec
